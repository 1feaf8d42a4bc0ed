'use strict';
// The page: tables and charts from the data. `data` is as runtime/tools/report/report.h says.
const data = JSON.parse(document.getElementById('data').textContent);
const comparison = data.comparison;
const byName = new Map(data.models.map((model) => [model.name, model]));
// The base first, as in the comparison.
const models = comparison.variants.map((row) => byName.get(row.variant));
// Colors of Okabe and Ito, distinguishable with all kinds of color vision. The line style changes every four models.
const palettes = {
  light: ['#0072b2', '#d55e00', '#007a5a', '#b8558d', '#8a6d00', '#3fa7dd', '#333333'],
  dark: ['#56b4e9', '#ff8c42', '#2fc997', '#e79bc8', '#e8c547', '#9ecbff', '#dddddd'],
};
const strokes = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
const points = ['circle', 'triangle', 'rect', 'rectRot', 'cross', 'star'];
const metricWords = {
  val_bits_per_byte: 'val bits/byte',
  val_bits_per_token: 'val bits/token',
  val_loss: 'val loss',
  loss: 'train loss',
};
const metric = metricWords[comparison.metric] || comparison.metric;
const state = {
  shown: new Set(models.slice(0, 12)),
  against: 'tokens',
  smoothing: 0.8,
  seeds: false,
  logarithmic: false,
  theme: 'system',
  cost: 'parameters',
};
const charts = []; // those on the page, each { chart, linked }

// ---- options, one by one ----

// The parts of "a = 1, b = { c = 2 }" at the outermost commas.
function entries(text) {
  const parts = [];
  let depth = 0;
  let begin = 0;
  let quoted = false;
  for (let i = 0; i <= text.length; i++) {
    const letter = text[i];
    if (letter === '"') quoted = !quoted;
    if (quoted) continue;
    if (letter === '{' || letter === '[' || letter === '(') depth++;
    if (letter === '}' || letter === ']' || letter === ')') depth--;
    if (i < text.length && (letter !== ',' || depth > 0)) continue;
    if (text.slice(begin, i).trim()) parts.push(text.slice(begin, i).trim());
    begin = i + 1;
  }
  return parts;
}

// "moe { experts = 4 }" is the word and each option of it by its path; into `flat`.
function flatten(path, text, flat) {
  const record = /^([\w.]*)\s*\{([\s\S]*)\}$/.exec(text);
  const parts = record ? entries(record[2]).map((part) => /^([\w.]+)\s*=\s*([\s\S]+)$/.exec(part)) : [];
  if (!record || parts.some((part) => !part)) {
    flat[path] = text;
    return;
  }
  if (record[1] && record[1] !== path) flat[path] = record[1];
  for (const [, name, value] of parts) flatten(`${path}.${name}`, value, flat);
}

for (const model of data.models) {
  if (!model.options) continue;
  const flat = {};
  for (const [path, text] of Object.entries(model.options)) flatten(path, text, flat);
  model.options = flat;
}

// ---- small things ----

const find = (name) => document.getElementById(name);

function make(kind, attributes = {}, ...children) {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);

function scaled(value) {
  if (!isNumber(value)) return '–';
  if (Math.abs(value) >= 1e18) return value.toExponential(2);
  const units = [[1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];
  for (const [size, letter] of units)
    if (Math.abs(value) >= size) return Number((value / size).toPrecision(4)) + letter;
  return String(Number(value.toPrecision(4)));
}

const fixed = (value, digits = 5) => (isNumber(value) ? value.toFixed(digits) : '–');

function duration(seconds) {
  if (!isNumber(seconds)) return '–';
  if (seconds < 120) return `${Number(seconds.toPrecision(3))} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(1)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

function colour(model, strength = 1) {
  const palette = palettes[isDark() ? 'dark' : 'light'];
  const hex = palette[models.indexOf(model) % palette.length];
  const alpha = Math.round(strength * 255).toString(16).padStart(2, '0');
  return hex + alpha;
}

const stroke = (model) => strokes[Math.floor(models.indexOf(model) / 4) % strokes.length];
const pointOf = (model) => points[models.indexOf(model) % points.length];
const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function isDark() {
  if (state.theme !== 'system') return state.theme === 'dark';
  return !state.printing && matchMedia('(prefers-color-scheme: dark)').matches;
}

// ---- tables ----

// columns: [{ head, value: row => text or node, words }]; the first column is the head of its row.
function table(columns, rows, caption) {
  const head = make('tr', {}, ...columns.map((column) =>
    make('th', { scope: 'col', class: column.words ? 'words' : null }, column.head)));
  const body = rows.map((row) => make('tr', {}, ...columns.map((column, i) => {
    const value = column.value(row);
    if (value instanceof HTMLTableCellElement) return value;
    const attributes = { class: column.words ? 'words' : null, scope: i ? null : 'row' };
    return make(i ? 'td' : 'th', attributes, value ?? '–');
  })));
  return make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    make('table', {}, make('thead', {}, head), make('tbody', {}, ...body)));
}

function seedsText(row) {
  const all = row.finished + row.diverged + row.unfinished;
  return row.finished === all ? String(all) : `${row.finished} of ${all}`;
}

function verdictNode(row) {
  const difference = row.difference;
  const parts = [];
  if (difference && difference.verdict)
    parts.push(make('span', { class: difference.verdict.split(',')[0] }, difference.verdict));
  if (row.best) parts.push(`${parts.length ? ', ' : ''}best of ${row.choices}${row.at_edge ? ', at the edge of the tested values' : ''}`);
  if (row.stopped) parts.push(`stopped at step ${row.stopped}`);
  if (row.diverged) parts.push(`${parts.length ? ', ' : ''}${row.diverged} diverged`);
  return make('td', { class: 'words' }, ...parts);
}

function differenceText(difference) {
  if (!difference || !isNumber(difference.mean)) return '';
  const margin = isNumber(difference.low) ? ` [${signed(difference.low)}, ${signed(difference.high)}]` : '';
  return signed(difference.mean) + margin;
}

function signed(value) {
  return (value < 0 ? '−' : '+') + fixed(Math.abs(value));
}

function drawComparison() {
  const section = find('comparison');
  section.append(table([
    { head: 'model', value: (row) => row.variant },
    { head: 'seeds', value: seedsText },
    { head: metric, value: (row) => fixed(row.loss) },
    { head: 'std', value: (row) => fixed(row.spread) },
    { head: 'difference (95 % CI)', value: (row) => differenceText(row.difference) },
    { head: 'p', value: (row) => fixed(row.difference && row.difference.chance, 3) },
    { head: 'adjusted p', value: (row) => fixed(row.difference && row.difference.adjusted, 3) },
    ...(comparison.detect
      ? [{ head: 'seeds needed', value: (row) => fixed(row.difference && row.difference.seeds_needed, 0) }]
      : []),
    { head: 'verdict', words: true, value: verdictNode },
    { head: 'parameters', value: (row) => scaled(row.parameters) },
    { head: 'activated', value: (row) => scaled(row.active) },
    { head: 'FLOP/token', value: (row) => scaled(row.flops) },
    { head: 'KV cache B/token', value: (row) => scaled(row.cache) },
    { head: 'tokens', value: (row) => scaled(row.tokens) },
    { head: 'training FLOP', value: (row) => scaled(row.flops_total) },
    { head: 'tokens/s', value: (row) => scaled(row.speed) },
    { head: 'time', value: (row) => duration(row.seconds) },
  ], comparison.variants, 'comparison of models'));
  section.append(make('p', { class: 'note' },
    `${metric}: mean and standard deviation of the last evaluation over seeds. Difference: from ${comparison.base}, ` +
    'by a paired t-test over equal seeds, else by Welch’s t-test. p: two-sided p-value. Adjusted p: for ' +
    `${comparison.comparisons} comparisons (correction: ${comparison.correction.replace('_', '-')}); a difference is not ` +
    `significant if it is at least 0.05.${testRules()}`));
  drawEffects(section);
  drawScaling(section);
  drawPlan(section);
  const rows = comparison.variants.filter((row) => row.difference && isNumber(row.difference.mean));
  if (rows.length) {
    const height = `${Math.max(8, 3 + 1.6 * rows.length)}rem`;
    const box = make('div', { class: 'charts' });
    section.append(box);
    addChart(box, `difference from ${comparison.base} in ${metric}`, () => differenceChart(rows),
      { wide: true, height });
  }
}

function testRules() {
  let text = '';
  if (comparison.equivalence)
    text += ` Equivalent: within ±${comparison.equivalence}, by two one-sided tests; not worse: by less than that.`;
  if (comparison.detect)
    text += ` Seeds needed: runs per variant that find a difference of ${comparison.detect} with a probability of ` +
      `${Math.round(100 * comparison.power)} %, if the standard deviation is the measured one.`;
  return text;
}

function drawEffects(section) {
  const effects = comparison.effects;
  if (!effects) return;
  section.append(table([
    { head: 'effect', value: (row) => row.effect },
    { head: 'df', value: (row) => fixed(row.freedom, 0) },
    { head: 'F', value: (row) => fixed(row.f, 2) },
    { head: 'p', value: (row) => fixed(row.chance, 3) },
    { head: 'adjusted p', value: (row) => fixed(row.adjusted, 3) },
  ], effects.variance, 'analysis of variance'));
  section.append(table([
    { head: 'factor', value: (row) => row.factor },
    { head: 'value', words: true, value: (row) => row.value },
    { head: 'effect (95 % CI)', value: differenceText },
  ], effects.levels, 'effects of the values'));
  section.append(make('p', { class: 'note' }, 'F: analysis of variance of the grid with seeds as blocks. Effect: mean of ' +
    'the variants with the value less the mean of all.'));
}

// "0.342 [0.310, 0.371]"
function intervalText(value, [low, high] = [], digits = 4) {
  if (!isNumber(value)) return '';
  return fixed(value, digits) + (isNumber(low) && isNumber(high) ? ` [${fixed(low, digits)}, ${fixed(high, digits)}]` : '');
}

function crossingText(crossing) {
  if (!crossing) return '';
  if (!isNumber(crossing.parameters)) return 'none';
  const bounds = isNumber(crossing.low) ? ` [${scaled(crossing.low)}, ${scaled(crossing.high)}]` : '';
  return scaled(crossing.parameters) + bounds;
}

function drawScaling(section) {
  if (!comparison.scaling) return;
  const fit = (row) => row.fit || {};
  const forecast = (row) => row.forecast || {};
  section.append(table([
    { head: 'curve', value: (row) => row.curve },
    { head: 'sizes', value: (row) => String(row.points.length) },
    { head: 'limit E (95 % CI)', value: (row) => intervalText(fit(row).limit, fit(row).limit_95) },
    { head: 'alpha (95 % CI)', value: (row) => intervalText(fit(row).alpha, fit(row).alpha_95, 3) },
    { head: 'beta (95 % CI)', value: (row) => intervalText(fit(row).beta, fit(row).beta_95, 3) },
    { head: 'forecast (95 % CI)', value: (row) => intervalText(forecast(row).loss, [forecast(row).low, forecast(row).high]) },
    { head: 'measured', value: (row) => fixed(forecast(row).measured, 4) },
    { head: 'crosses at (95 % CI)', value: (row) => crossingText(row.crossing) },
  ], comparison.scaling, 'loss over sizes'));
  section.append(make('p', { class: 'note' }, 'Limit, alpha, beta: fit of loss = E + A / N^alpha (+ B / D^beta) over activated ' +
    'parameters N and tokens D. Forecast: of the largest size, from the others, before it was trained. Crosses at: size at ' +
    'which the loss equals that of the first curve. Each size is compared with the first curve at that size.'));
}

function drawPlan(section) {
  const plan = comparison.plan;
  if (!plan) return;
  const lines = plan.hypothesis ? [`Hypothesis: ${plan.hypothesis}`] : [];
  plan.plans.forEach((own, i) => {
    const runs = own.finished_runs;
    const when = runs ? `after ${runs} finished run${runs === 1 ? '' : 's'}` : 'before the first run';
    lines.push(`Plan ${own.hash.slice(0, 12)}, ${i ? 'changed' : 'registered'} ${own.time} ${when}${i ? `: ${own.reason}` : ''}`);
  });
  if (!plan.registered) lines.push(`Plan ${plan.hash.slice(0, 12)} in sweep.json is not registered: the file was changed.`);
  if (plan.set_aside.length)
    lines.push(`No longer in the plan: ${plan.set_aside.map((own) => `${own.variant} (${own.finished_runs} runs)`).join(', ')}`);
  section.append(...lines.map((line) => make('p', { class: 'note' }, line)));
}

function differenceChart(rows) {
  const shown = rows.map((row) => byName.get(row.variant));
  const spans = rows.map(({ difference }) =>
    (isNumber(difference.low) ? [difference.low, difference.high] : [difference.mean, difference.mean]));
  return {
    type: 'bar',
    data: {
      labels: rows.map((row) => row.variant),
      datasets: [
        { type: 'scatter', label: 'mean', data: rows.map((row, i) => ({ x: row.difference.mean, y: i })),
          yAxisID: 'places', pointRadius: 6, pointStyle: shown.map(pointOf),
          pointBackgroundColor: shown.map((model) => colour(model)),
          pointBorderColor: shown.map((model) => colour(model)) },
        { label: '95 % interval', data: spans, barThickness: 6, borderRadius: 3, borderSkipped: false,
          backgroundColor: shown.map((model) => colour(model, 0.45)) },
      ],
    },
    options: options({
      indexAxis: 'y',
      tooltip: { label: (item) => differenceText(rows[item.dataIndex].difference) },
      scales: {
        x: axis(`${metric}, ${comparison.higher ? 'higher' : 'lower'} is better`, { zero: true }),
        y: names(),
        places: { type: 'linear', axis: 'y', offset: false, display: false, reverse: true, min: -0.5, max: rows.length - 0.5 },
      },
    }),
  };
}

// ---- charts ----

function axis(title, { logarithmic = false, zero = false } = {}) {
  return {
    type: logarithmic ? 'logarithmic' : 'linear',
    title: { display: Boolean(title), text: title, color: variable('--quiet') },
    ticks: { color: variable('--quiet'), maxTicksLimit: 8,
      callback: (value) => scaled(value) },
    grid: { color: (context) => (zero && context.tick && context.tick.value === 0 ? variable('--ink') : variable('--grid')) },
    border: { color: variable('--line') },
  };
}

// Every name beside its bar.
function names() {
  return { type: 'category', ticks: { color: variable('--ink'), autoSkip: false }, grid: { display: false } };
}

function options({ scales, tooltip = {}, indexAxis, interaction, legend = false }) {
  return {
    animation: false,
    responsive: true,
    maintainAspectRatio: false,
    indexAxis,
    normalized: true,
    interaction: interaction || { mode: 'nearest', intersect: false },
    // The cursor of linked charts is ours; the library would take its marks and its tooltip away again.
    ...(interaction && interaction.mode === 'none' ? { events: [] } : {}),
    plugins: {
      legend: { display: legend, labels: { color: variable('--ink') } },
      tooltip: { callbacks: tooltip },
    },
    scales,
  };
}

// A chart in a box of its own; `build` gives its configuration and is called anew when something changes.
function addChart(box, title, build, { wide = false, height = null, linked = false } = {}) {
  const canvas = make('canvas', { tabindex: 0, role: 'img', 'aria-label': title });
  const frame = make('div', { style: height ? `height:${height}` : null }, canvas);
  box.append(make('div', { class: wide ? 'chart wide' : 'chart' }, make('h3', {}, title), frame));
  const entry = { canvas, build, linked, chart: new Chart(canvas, build()) };
  charts.push(entry);
  canvas.addEventListener('keydown', (event) => moveCursor(entry, event));
  if (linked) {
    canvas.addEventListener('mousemove', (event) =>
      showCursor(entry.chart.scales.x.getValueForPixel(event.offsetX), entry));
    canvas.addEventListener('mouseleave', () => showCursor(null));
  }
  return entry;
}

function redraw() {
  for (const entry of charts) {
    const { data: fresh, options: settings } = entry.build();
    entry.chart.data = fresh;
    entry.chart.options = settings;
    entry.chart.update('none');
  }
}

// The line at the cursor, the same place in every linked chart.
let cursor = null;
const cursorLine = {
  id: 'cursorLine',
  afterDatasetsDraw(chart) {
    if (cursor === null || !charts.some((entry) => entry.chart === chart && entry.linked)) return;
    const { ctx, chartArea, scales } = chart;
    const x = scales.x.getPixelForValue(cursor);
    if (x < chartArea.left || x > chartArea.right) return;
    ctx.save();
    ctx.strokeStyle = variable('--quiet');
    ctx.setLineDash([3, 3]);
    ctx.beginPath();
    ctx.moveTo(x, chartArea.top);
    ctx.lineTo(x, chartArea.bottom);
    ctx.stroke();
    ctx.restore();
  },
};

function nearest(values, x) {
  let best = -1;
  values.forEach((point, i) => {
    if (best < 0 || Math.abs(point.x - x) < Math.abs(values[best].x - x)) best = i;
  });
  return best;
}

// The point of each curve that is nearest to the cursor is marked and told, in all linked charts.
function showCursor(x, from = null) {
  cursor = x;
  for (const entry of charts.filter((one) => one.linked)) {
    const { chart } = entry;
    const active = [];
    chart.data.datasets.forEach((dataset, datasetIndex) => {
      if (x === null || dataset.band || !dataset.data.length) return;
      active.push({ datasetIndex, index: nearest(dataset.data, x) });
    });
    chart.setActiveElements(active);
    const area = chart.chartArea;
    const place = { x: x === null ? 0 : chart.scales.x.getPixelForValue(x), y: area ? (area.top + area.bottom) / 2 : 0 };
    chart.tooltip.setActiveElements(entry === from ? active : [], place);
    chart.update('none');
  }
}

function moveCursor(entry, event) {
  if (event.key === 'Escape') return showCursor(null);
  const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
  if (!step || !entry.linked) return undefined;
  event.preventDefault();
  const { min, max } = entry.chart.scales.x;
  const now = cursor === null ? (step < 0 ? max : min) : cursor;
  return showCursor(Math.min(max, Math.max(min, now + (step * (max - min)) / 40)), entry);
}

// ---- curves ----

const againstWords = { tokens: 'tokens', flops: 'FLOP', time: 'seconds', step: 'steps' };

function interpolate(pairs, step) {
  let low = 0;
  let high = pairs.length - 1;
  if (high < 0) return NaN;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (pairs[middle][0] <= step) low = middle;
    else high = middle;
  }
  const [[a, x], [b, y]] = [pairs[low], pairs[high]];
  if (step >= b || a === b) return step >= b ? y : x;
  return x + ((y - x) * Math.max(0, step - a)) / (b - a);
}

function place(model, run, step) {
  switch (state.against) {
    case 'tokens': return step * (model.tokens_per_step || 1);
    case 'flops': return step * (model.tokens_per_step || 1) * (model.flops || 1);
    case 'time': return interpolate(run.clock, step);
    default: return step;
  }
}

// An exponential mean that does not begin at zero.
function smooth(values, share) {
  let sum = 0;
  let weight = 0;
  return values.map(({ x, y }) => {
    if (!isNumber(y)) return { x, y: NaN };
    sum = share * sum + (1 - share) * y;
    weight = share * weight + (1 - share);
    return { x, y: sum / weight };
  });
}

function curveOf(model, run, name, share) {
  const values = (run.series[name] || []).map(([step, y]) => ({ x: place(model, run, step), y: y === null ? NaN : y }));
  return share ? smooth(values, share) : values;
}

// The mean over seeds, and their least and largest, step by step of the seed that went furthest.
function meanCurve(curves) {
  const longest = curves.reduce((best, one) => (one.length > best.length ? one : best), []);
  return longest.map((point, i) => {
    const here = curves.filter((one) => i < one.length && isNumber(one[i].y));
    const ys = here.map((one) => one[i].y);
    const mean = (numbers) => numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
    if (!ys.length) return { x: point.x, y: NaN, low: NaN, high: NaN };
    return { x: mean(here.map((one) => one[i].x)), y: mean(ys), low: Math.min(...ys), high: Math.max(...ys) };
  });
}

function lineOf(model, label, values, extra = {}) {
  const few = values.length <= 15;
  return {
    label, data: values, borderColor: colour(model), backgroundColor: colour(model), borderDash: stroke(model),
    borderWidth: 2, pointRadius: few ? 3 : 0, pointHoverRadius: 4, pointStyle: pointOf(model), tension: 0,
    spanGaps: false, ...extra,
  };
}

function curveSets(name, share) {
  const sets = [];
  for (const model of models) {
    if (!state.shown.has(model)) continue;
    const curves = model.runs.map((run) => curveOf(model, run, name, share));
    if (!curves.some((one) => one.length)) continue;
    if (state.seeds) {
      model.runs.forEach((run, i) => sets.push(lineOf(model, `${model.name}, seed ${run.seed}`, curves[i], { borderWidth: 1.5 })));
      continue;
    }
    const mean = meanCurve(curves);
    sets.push(lineOf(model, model.name, mean));
    if (model.runs.length < 2) continue;
    const edge = { band: true, borderWidth: 0, pointRadius: 0, pointHoverRadius: 0, backgroundColor: colour(model, 0.14) };
    sets.push(lineOf(model, '', mean.map(({ x, low }) => ({ x, y: low })), { ...edge, fill: false }));
    sets.push(lineOf(model, '', mean.map(({ x, high }) => ({ x, y: high })), { ...edge, fill: '-1' }));
  }
  return sets;
}

// A constant is shown above a zero, not as a line through nowhere.
function flat(sets) {
  const ys = sets.flatMap((set) => set.data.map((point) => point.y)).filter(isNumber);
  const [low, high] = ys.reduce(([a, b], y) => [Math.min(a, y), Math.max(b, y)], [Infinity, -Infinity]);
  return high > 0 && high - low < 1e-9 * high ? { min: 0, max: 2 * high } : {};
}

function curveChart(name, title, share, logarithmic) {
  return linesChart(curveSets(name, share), title, logarithmic);
}

function linesChart(datasets, title, logarithmic) {
  return {
    type: 'line',
    data: { datasets },
    plugins: [cursorLine],
    options: options({
      interaction: { mode: 'none' },
      tooltip: {
        title: (items) => (items.length ? `${scaled(items[0].parsed.x)} ${againstWords[state.against]}` : ''),
        label: (item) => `${item.dataset.label}: ${Number(item.parsed.y.toPrecision(6))}`,
      },
      scales: { x: axis(againstWords[state.against]), y: { ...axis(title, { logarithmic }), ...flat(datasets) } },
    }),
  };
}

// What any run has logged, in the order of the log.
function seriesNames(wanted) {
  const names = new Set();
  for (const model of models)
    for (const run of model.runs) for (const name of Object.keys(run.series)) if (wanted(name)) names.add(name);
  return [...names];
}

const always = new Set(['loss', 'grad_norm', 'lr', 'seconds', 'total']);

function drawCurves() {
  const box = make('div', { class: 'charts' });
  find('curves').append(box);
  const curve = (name, title, smoothed, wide) => addChart(box, title,
    () => curveChart(name, title, smoothed ? state.smoothing : 0, state.logarithmic), { linked: true, wide });
  if (comparison.metric !== 'loss' && seriesNames((name) => name === comparison.metric).length)
    curve(comparison.metric, `${metric}, validation data`, false, true);
  curve('loss', 'train loss', true, comparison.metric === 'loss');
  for (const [name, title] of [['grad_norm', 'gradient norm'], ['lr', 'learning rate']])
    if (seriesNames((one) => one === name).length) curve(name, title, name === 'grad_norm', false);
  find('curves').append(make('p', { class: 'note' },
    'Lines: means over seeds. Bands: smallest to largest seed. Arrow keys move the cursor of the focused chart; ' +
    'all charts share it.'));
}

// ---- the optimum of a setting ----

const numeric = (text) => (text !== undefined && text !== '' && isNumber(Number(text)) ? Number(text) : NaN);

// Options whose values differ between the models.
function differingOptions() {
  const names = new Set(models.flatMap((model) => Object.keys(model.options || {})));
  return [...names].filter((name) => new Set(models.map((model) => (model.options || {})[name])).size > 1);
}

// One line for each shape: the models that are alike but for the setting; at least three values make a curve.
function shapesOf(setting, differing) {
  const shapes = new Map();
  models.forEach((model, i) => {
    const value = numeric((model.options || {})[setting]);
    const loss = comparison.variants[i].loss;
    if (!isNumber(value)) return;
    const others = differing.filter((name) => name !== setting);
    const key = JSON.stringify(others.map((name) => (model.options || {})[name] ?? null));
    const shape = shapes.get(key) || { model, others, values: [] };
    shape.values.push({ x: value, y: isNumber(loss) ? loss : NaN, model, spread: comparison.variants[i].spread });
    shapes.set(key, shape);
  });
  return [...shapes.values()].filter((shape) => shape.values.filter((one) => isNumber(one.y)).length > 2);
}

// A shape is called as the experiment calls it, or by as few options as tell all shapes apart.
function shapeName(shape, shapes) {
  const structure = comparison.variants[models.indexOf(shape.model)].structure;
  if (structure && new Set(shapes.map((one) => comparison.variants[models.indexOf(one.model)].structure)).size === shapes.length)
    return structure;
  const value = (one, name) => (one.model.options || {})[name] ?? 'none';
  const distinct = (names) => new Set(shapes.map((one) => JSON.stringify(names.map((name) => value(one, name))))).size;
  const telling = [...shape.others].sort((one, other) => distinct([other]) - distinct([one]));
  const chosen = [];
  for (const name of telling) if (distinct([...chosen, name]) > distinct(chosen)) chosen.push(name);
  return chosen.map((name) => `${name.split('.').slice(-2).join('.')} = ${value(shape, name)}`).join(', ') || shape.model.name;
}

function optimumChart(setting, shapes) {
  const values = shapes.flatMap((shape) => shape.values.map((one) => one.x)).filter((x) => x > 0);
  const wide = values.length && Math.max(...values) / Math.min(...values) >= 8;
  const tried = [...new Set(shapes.flatMap((shape) => shape.values.map((one) => one.x)))].sort((a, b) => a - b);
  const only = (scale) => { if (tried.length <= 8) scale.ticks = tried.map((value) => ({ value })); };
  const sets = shapes.flatMap((shape, i) => {
    shape.values.sort((a, b) => a.x - b.x);
    const best = shape.values.filter((one) => isNumber(one.y)).reduce((a, b) => ((b.y < a.y) !== Boolean(comparison.higher) ? b : a));
    return [lineOf(models[i], shapeName(shape, shapes), shape.values),
      lineOf(models[i], 'best', [best], { pointRadius: 9, pointHoverRadius: 9, pointBorderWidth: 2.5, pointBackgroundColor: 'transparent', showLine: false, best: true })];
  });
  return {
    type: 'line',
    data: { datasets: sets },
    options: {
      ...options({
        tooltip: { label: (item) => `${item.raw.model.name}: ${fixed(item.parsed.y)}` },
        scales: { x: { ...axis(setting, { logarithmic: wide }), afterBuildTicks: only }, y: axis(metric) },
      }),
      plugins: {
        legend: { labels: { color: variable('--ink'), usePointStyle: true, boxWidth: 8, boxHeight: 8, filter: (item, all) => !all.datasets[item.datasetIndex].best } },
        tooltip: { callbacks: { label: (item) => `${item.raw.model.name}: ${fixed(item.parsed.y)}` } },
      },
    },
  };
}

function drawOptimum() {
  const section = find('optimum');
  const differing = differingOptions();
  const found = differing.map((setting) => [setting, shapesOf(setting, differing)]).filter(([, shapes]) => shapes.length);
  if (!found.length) return section.remove();
  const box = make('div', { class: 'charts' });
  section.append(box);
  for (const [setting, shapes] of found)
    addChart(box, `${metric} over ${setting}`, () => optimumChart(setting, shapes),
      { wide: found.length === 1 || shapes.length > 4, height: shapes.length > 4 ? `${16 + shapes.length}rem` : null });
  section.append(make('p', { class: 'note' }, 'Large mark: best value of each model. If it is the first or last value, test more values.'));
  return undefined;
}

// ---- options and runs ----

function optionRows(all) {
  const names = [...new Set(models.flatMap((model) => Object.keys(model.options || {})))];
  const differing = new Set(differingOptions());
  return names.filter((name) => all || differing.has(name)).sort();
}

function optionCell(model, name) {
  const value = (model.options || {})[name];
  const differs = value !== (models[0].options || {})[name];
  return make('td', { class: differs ? 'words differs' : 'words' }, make('code', {}, value ?? '–'));
}

function drawSpecs() {
  const section = find('specs');
  if (!models.some((model) => model.options)) return section.remove();
  const holder = make('div');
  const fill = (all) => holder.replaceChildren(table([
    { head: 'option', value: (name) => make('code', {}, name) },
    ...models.map((model) => ({ head: model.name, words: true, value: (name) => optionCell(model, name) })),
  ], optionRows(all), 'options of the models'));
  section.append(make('p', {}, make('label', {},
    make('input', { type: 'checkbox', id: 'all_options', onchange: (event) => fill(event.target.checked) }),
    ' show all options')), holder,
  make('p', { class: 'note' }, `Marked: not as in ${models[0].name}.`));
  fill(models.length < 2);
  return undefined;
}

function quoted(command) {
  return ['moec', ...command].map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`)).join(' ');
}

function drawRuns() {
  const rows = models.flatMap((model, i) => model.runs.map((run, k) => ({ model, run, row: comparison.variants[i].runs[k] })));
  const last = ({ run }) => (run.starts && run.starts.length ? run.starts[run.starts.length - 1] : {});
  find('runs').append(table([
    { head: 'model', value: ({ model }) => model.name },
    { head: 'seed', value: ({ run }) => (run.seed < 0 ? '–' : String(run.seed)) },
    { head: 'steps', value: ({ row }) => String(row.step) },
    { head: metric, value: ({ row, run }) => (run.diverged ? 'diverged' : fixed(row.loss)) },
    { head: 'time', value: ({ row }) => duration(row.seconds) },
    { head: 'device', words: true, value: (one) => [last(one).device, last(one).processor].filter(Boolean).join(', ') },
    { head: 'moec', words: true, value: (one) => [last(one).version, last(one).commit].filter(Boolean).join(' ') },
    { head: 'begun', words: true, value: (one) => (one.run.starts && one.run.starts.length ? one.run.starts[0].when : '–') },
    { head: 'command', words: true, value: (one) =>
      make('td', { class: 'words command' }, make('code', {}, last(one).command ? quoted(last(one).command) : '–')) },
  ], rows, 'runs'));
}

// ---- the frame ----

function swatch(model) {
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  line.setAttribute('class', 'swatch');
  line.setAttribute('width', '28');
  line.setAttribute('height', '10');
  line.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'line');
  for (const [name, value] of Object.entries({ x1: 0, x2: 28, y1: 5, y2: 5, stroke: colour(model), 'stroke-width': 3,
    'stroke-dasharray': stroke(model).join(' ') })) path.setAttribute(name, value);
  line.append(path);
  return line;
}

function drawModels() {
  const boxes = models.map((model) => make('label', {},
    make('input', { type: 'checkbox', checked: state.shown.has(model), onchange: (event) => {
      state.shown[event.target.checked ? 'add' : 'delete'](model);
      redraw();
    } }), swatch(model), model.name));
  find('models').replaceChildren(make('legend', {}, 'Models'), ...boxes);
}

function applyTheme() {
  document.documentElement.classList.toggle('dark', isDark());
  find('theme').textContent = `Colors: ${state.theme}`;
  find('theme').setAttribute('aria-label', `color scheme: ${state.theme}; press for the next`);
  drawModels();
  showGraph();
  redraw();
}

function bindControls() {
  const bind = (name, event, take) => find(name).addEventListener(event, (one) => { take(one.target); redraw(); });
  bind('against', 'change', (target) => { state.against = target.value; cursor = null; });
  bind('seeds', 'change', (target) => { state.seeds = target.checked; });
  bind('logarithmic', 'change', (target) => { state.logarithmic = target.checked; });
  bind('smoothing', 'input', (target) => {
    state.smoothing = Number(target.value);
    find('smoothing_value').textContent = state.smoothing.toFixed(2);
  });
  find('controls').addEventListener('submit', (event) => event.preventDefault());
  find('theme').addEventListener('click', () => {
    const order = ['system', 'light', 'dark'];
    state.theme = order[(order.indexOf(state.theme) + 1) % 3];
    applyTheme();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', applyTheme);
  addEventListener('beforeprint', () => {
    state.before = state.theme;
    state.theme = 'light';
    applyTheme();
    for (const { chart } of charts) chart.resize();
  });
  addEventListener('afterprint', () => {
    state.theme = state.before;
    applyTheme();
  });
}

function begin() {
  const name = comparison.experiment || models.map((model) => model.name).slice(0, 3).join(', ');
  document.title = `${name} – moec report`;
  find('title').textContent = name;
  find('subtitle').textContent =
    `${models.length} model${models.length === 1 ? '' : 's'}, ${comparison.seeds} seed${comparison.seeds === 1 ? '' : 's'}; ` +
    `${metric}; baseline: ${comparison.base}`;
  find('footer').textContent = `Written by moec ${data.version}, commit ${data.commit}. Charts by Chart.js (MIT).`;
  document.documentElement.classList.toggle('dark', isDark());
  if (!models.some((model) => model.tokens_per_step)) {
    state.against = 'step';
    find('against').value = 'step';
  }
  drawModels();
  drawComparison();
  drawCurves();
  drawOptimum();
  drawCosts();
  drawGraph();
  drawProbes();
  drawSpecs();
  drawRuns();
  for (const section of document.querySelectorAll('main section')) {
    const heading = section.querySelector('h2').textContent;
    find('sections').append(make('a', { href: `#${section.id}` }, heading));
  }
  bindControls();
}

begin();
