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
      scales: { x: axis({ parameters: 'parameters', active: 'active parameters', flops: 'FLOP of a token, forward' }[state.cost]),
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
    ...[['parameters', 'parameters'], ['active', 'active parameters'], ['flops', 'FLOP']].map(([value, text]) =>
      make('option', { value }, text)));
  section.append(make('p', {}, make('label', {}, 'Measure ', select)));
  const box = make('div', { class: 'charts' });
  section.append(box);
  const bars = Math.min(described.length, 12);
  addChart(box, 'cost by layer, those of all blocks together', costChart,
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
    make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'the graph of layers' },
      make('div', { id: 'graph_picture' })),
    make('p', { class: 'note' }, 'A training step: layers and what they read, time by unit of work at the ceilings of the machine ' +
      'that wrote this page, memory over the step. As `moec explain --svg` draws it.'));
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
  const sets = names.map((name, i) => {
    const mean = meanCurve(model.runs.map((run) => curveOf(model, run, name, state.smoothing)));
    const own = depthColour(names.length > 1 ? i / (names.length - 1) : 0);
    return lineOf(model, `layer ${layerName.exec(name)[2]}`, mean, { borderColor: own, backgroundColor: own, borderDash: [] });
  });
  return linesChart(sets.filter((set) => set.data.length), kind, false);
}

function drawProbes() {
  const names = seriesNames((name) => !always.has(name) && !name.startsWith('val_'));
  const section = find('probes');
  if (!names.length) return section.remove();
  const layered = new Map();
  for (const name of names.filter((one) => layerName.test(one))) {
    const kind = layerName.exec(name)[1];
    layered.set(kind, [...(layered.get(kind) || []), name]);
  }
  const box = make('div', { class: 'charts' });
  section.append(box);
  for (const kind of names.filter((one) => !layerName.test(one)))
    addChart(box, layered.has(kind) ? `${kind}, mean of the layers` : kind, () => curveChart(kind, kind, state.smoothing, false),
      { linked: true });
  if (!layered.size) return undefined;
  const own = make('div', { class: 'charts' });
  section.append(
    make('p', {}, make('label', {}, 'Layers of ', make('select', { id: 'probe_model', onchange: redraw },
      ...models.map((model) => make('option', {}, model.name))))),
    own,
    make('p', { class: 'note' }, 'Means over seeds; blue is the first layer that has the probe, orange the last.'));
  for (const [kind, parts] of layered)
    addChart(own, `${kind}, by layer`, () => layersChart(kind, parts), { linked: true });
  return undefined;
}
