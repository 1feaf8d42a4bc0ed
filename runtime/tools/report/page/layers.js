'use strict';
// The sections of what has a place in the model; page.js, which follows, has the frame that they use.

// ---- cost by layer ----

// Layers of a repeat are added up: "block.*.attention".
function layersOf(model, measure) {
  const sums = new Map();
  for (const layer of model.layers || []) {
    const path = layer.path.replace(/\.\d+(?=\.|$)/g, '.*');
    sums.set(path, (sums.get(path) || 0) + layer[measure]);
  }
  return sums;
}

function costChart() {
  const shown = models.filter((model) => state.shown.has(model) && model.layers);
  const sums = shown.map((model) => layersOf(model, state.cost));
  const labels = [...new Set(sums.flatMap((one) => [...one.keys()]))];
  return {
    type: 'bar',
    data: { labels, datasets: shown.map((model, i) => ({
      label: model.name, data: labels.map((path) => sums[i].get(path) || 0), backgroundColor: colour(model, 0.85),
      borderColor: colour(model), borderWidth: 1 })) },
    options: options({
      indexAxis: 'y',
      interaction: { mode: 'index', axis: 'y', intersect: false },
      tooltip: { label: (item) => `${item.dataset.label}: ${scaled(item.parsed.x)}` },
      scales: { x: axis({ parameters: 'parameters', active: 'activated parameters', flops: 'FLOP/token, forward' }[state.cost]),
        y: names() },
    }),
  };
}

function drawCosts() {
  const section = find('costs');
  const described = models.filter((model) => model.layers);
  if (!described.length) return section.remove();
  const rows = new Set(described.flatMap((model) => [...layersOf(model, 'parameters').keys()])).size;
  const select = make('select', { id: 'cost', onchange: (event) => { state.cost = event.target.value; redraw(); } },
    ...[['parameters', 'parameters'], ['active', 'activated parameters'], ['flops', 'FLOP/token']].map(([value, text]) =>
      make('option', { value }, text)));
  section.append(make('p', {}, make('label', {}, 'Measure ', select)));
  const box = make('div', { class: 'charts' });
  section.append(box);
  const bars = Math.min(described.length, 12);
  addChart(box, 'cost by layer, equal layers of all blocks summed', costChart,
    { wide: true, height: `${Math.max(12, 4 + rows * (0.7 + 0.55 * bars))}rem` });
  return undefined;
}

// ---- the graph ----

// The picture has a style of its own, which must reach nothing else; it is as dark as the page and not as the system.
function showGraph() {
  const picture = find('graph_picture');
  if (!picture) return;
  const model = byName.get(find('graph_model').value);
  const svg = model.graph.replace(/@media\(prefers-color-scheme:dark\)\{((?:[^{}]*\{[^{}]*\})*)\}/, isDark() ? '$1' : '');
  const root = picture.shadowRoot || picture.attachShadow({ mode: 'open' });
  root.innerHTML = `<style>svg { min-width: 50rem; width: 100%; height: auto; border-radius: 8px }</style>${svg}`;
}

function drawGraph() {
  const section = find('graph');
  const drawn = models.filter((model) => model.graph);
  if (!drawn.length) return section.remove();
  section.append(
    make('p', {}, make('label', {}, 'Model ', make('select', { id: 'graph_model', onchange: showGraph },
      ...drawn.map((model) => make('option', {}, model.name))))),
    make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'layer graph' },
      make('div', { id: 'graph_picture' })),
    make('p', { class: 'note' }, 'One training step: layer graph, lower bound per kernel on the machine that wrote this page, ' +
      'activation memory over the step. Same picture as `moec explain --svg`.'));
  showGraph();
  return undefined;
}

// ---- probes ----

// "gate.layer.3": the probe of one layer.
const layerName = /^(.*)\.layer\.(\d+)$/;

// From the blue of the first layer to the orange of the last, which every kind of sight keeps apart.
function depthColour(share) {
  const ends = isDark() ? [[86, 180, 233], [255, 140, 66]] : [[0, 114, 178], [213, 94, 0]];
  return `rgb(${ends[0].map((from, i) => Math.round(from + share * (ends[1][i] - from))).join(',')})`;
}

function layersChart(kind, names) {
  const model = byName.get(find('probe_model').value);
  const there = names.filter((name) => model.runs.some((run) => (run.series[name] || []).length));
  const sets = there.map((name, i) => {
    const mean = meanCurve(model.runs.map((run) => curveOf(model, run, name, state.smoothing)));
    const own = depthColour(there.length > 1 ? i / (there.length - 1) : 0);
    return lineOf(model, `layer ${layerName.exec(name)[2]}`, mean, { borderColor: own, backgroundColor: own, borderDash: [] });
  });
  return linesChart(sets, kind, false);
}

// Stops of cividis: the lightness increases monotonically, also in print without color.
const shades = [[0, 32, 77], [49, 68, 107], [102, 105, 112], [149, 143, 120], [203, 186, 105], [255, 234, 70]];

function shadeOf(share) {
  const at = Math.min(1, Math.max(0, share)) * (shades.length - 1);
  const low = Math.min(Math.floor(at), shades.length - 2);
  return `rgb(${shades[low].map((from, i) => Math.round(from + (at - low) * (shades[low + 1][i] - from))).join(',')})`;
}

// Twice what each would have if all had the same is the end of the scale.
const evenShare = (values, time) => values.reduce((sum, one) => sum + (one[time] || 0), 0) / values.length;
const mostShown = 2;

// A cell for each value at each time, from the time before to its own.
const cells = {
  id: 'cells',
  beforeDatasetsDraw(chart) {
    const [{ values, data: times }] = chart.data.datasets;
    const { ctx, scales: { x, y } } = chart;
    times.forEach((time, i) => {
      const left = x.getPixelForValue(i ? times[i - 1].x : x.min);
      const even = evenShare(values, i);
      values.forEach((value, place) => {
        const top = y.getPixelForValue(place - 0.5);
        ctx.fillStyle = isNumber(value[i]) && even > 0 ? shadeOf(value[i] / even / mostShown) : variable('--line');
        ctx.fillRect(left, top, x.getPixelForValue(time.x) - left + 0.5, y.getPixelForValue(place + 0.5) - top + 0.5);
      });
    });
  },
};

// What the values are at a time: all of few, else the largest and the smallest.
function toldAt(values, time) {
  const even = evenShare(values, time);
  const told = values.map((one, place) => ({ place, times: one[time] / even })).filter((one) => isNumber(one.times));
  const text = ({ place, times }) => `${place}: ${times.toFixed(2)}`;
  if (told.length <= 8) return told.map(text);
  told.sort((one, other) => other.times - one.times);
  return [...told.slice(0, 3).map(text), '…', ...told.slice(-3).map(text)];
}

// 0, 10, 20, ...: at most eight of them.
function roundTicks(count) {
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((one) => count <= 8 * one) || count;
  return (scale) => { scale.ticks = Array.from({ length: Math.ceil(count / step) }, (_, i) => ({ value: i * step })); };
}

function valuesChart(kind, layer) {
  const model = byName.get(find('probe_model').value);
  const probe = (model.values || {})[kind];
  const values = (probe && probe.layers[layer]) || [];
  const times = values.length ? probe.steps.map((step) => ({ x: place(model, model.runs[0], step), y: 0 })) : [];
  return {
    type: 'line',
    data: { datasets: [{ values, data: times, showLine: false, pointRadius: 0, pointHoverRadius: 0, borderColor: variable('--line'),
      backgroundColor: variable('--line') }] },
    plugins: [cells, cursorLine],
    options: options({
      interaction: { mode: 'none' },
      tooltip: {
        title: (items) => (items.length ? `${scaled(items[0].parsed.x)} ${againstWords[state.against]}` : ''),
        label: (item) => toldAt(values, item.dataIndex),
      },
      scales: {
        x: { ...axis(againstWords[state.against]), min: 0, max: times.length ? times[times.length - 1].x : 1 },
        y: { ...axis('number'), min: -0.5, max: Math.max(values.length, 1) - 0.5, reverse: true,
          ticks: { color: variable('--quiet') }, grid: { display: false }, afterBuildTicks: roundTicks(values.length) },
      },
    }),
  };
}

const manyLayers = 6; // at once

// What a probe says value by value: the load of every expert.
function drawValues(section) {
  const kinds = [...new Set(models.flatMap((model) => Object.keys(model.values || {})))];
  for (const kind of kinds) {
    const layers = [...new Set(models.flatMap((model) => Object.keys(((model.values || {})[kind] || { layers: {} }).layers)))]
      .sort((a, b) => a - b);
    const box = make('div', { class: 'charts' });
    const scale = make('span', { class: 'scale', role: 'img', 'aria-label': 'colors from 0 to twice an equal share' });
    scale.style.background = `linear-gradient(to right, ${[0, 1, 2, 3, 4, 5].map((i) => shadeOf(i / 5)).join(', ')})`;
    const word = kind.replace(/^val_/, '');
    section.append(make('p', { class: 'note' }, `${word} per layer, first seed${kind === word ? '' : ', validation data'}; ` +
      'relative to an equal share: 0 ', scale, ` ${mostShown} or more`), box);
    const step = Math.ceil(layers.length / Math.ceil(layers.length / manyLayers));
    const shown = { from: 0 };
    const pages = make('select', { 'aria-label': `layers of ${word}`,
      onchange: (event) => { shown.from = Number(event.target.value); retitle(); redraw(); } },
    ...layers.flatMap((_, i) => (i % step ? [] : [make('option', { value: i },
      `${layers[i]} to ${layers[Math.min(i + step, layers.length) - 1]}`)])));
    if (layers.length > step) box.before(make('p', {}, make('label', {}, 'Show layers ', pages)));
    const entries = layers.slice(0, step).map((_, i) =>
      addChart(box, `${word}, layer ${layers[i]}`, () => valuesChart(kind, layers[shown.from + i]), { linked: true }));
    const retitle = () => entries.forEach(({ canvas }, i) => {
      const layer = layers[shown.from + i];
      const there = (byName.get(find('probe_model').value).values || {})[kind];
      canvas.setAttribute('aria-label', `${word}, layer ${layer}`);
      canvas.closest('.chart').querySelector('h3').textContent = `${word}, layer ${layer}`;
      canvas.closest('.chart').hidden = !(there && there.layers[layer]);
    });
    retitle();
    find('probe_model').addEventListener('change', () => {
      shown.from = Number(pages.value = 0);
      retitle();
      redraw();
    });
  }
}

function chooseModel() {
  return make('p', {}, make('label', {}, 'Layers of ', make('select', { id: 'probe_model', onchange: redraw },
    ...models.map((model) => make('option', {}, model.name)))));
}

function drawProbes() {
  const names = seriesNames((name) => !always.has(name) && !name.startsWith('val_'));
  const section = find('probes');
  const layered = new Map();
  for (const name of names.filter((one) => layerName.test(one))) {
    const kind = layerName.exec(name)[1];
    layered.set(kind, [...(layered.get(kind) || []), name]);
  }
  const box = make('div', { class: 'charts' });
  section.append(box);
  for (const kind of names.filter((one) => !layerName.test(one)))
    addChart(box, layered.has(kind) ? `${kind}, mean over layers` : kind, () => curveChart(kind, kind, state.smoothing, false),
      { linked: true });
  const values = models.some((model) => Object.keys(model.values || {}).length);
  if (!names.length && !values) return section.remove();
  if (!layered.size && !values) return undefined;
  section.append(chooseModel());
  if (layered.size) {
    const own = make('div', { class: 'charts' });
    section.append(own,
      make('p', { class: 'note' }, 'Means over seeds. Blue: first layer with the probe; orange: last.'));
    for (const [kind, parts] of layered)
      addChart(own, `${kind}, by layer`, () => layersChart(kind, parts), { linked: true });
  }
  drawValues(section);
  return undefined;
}
