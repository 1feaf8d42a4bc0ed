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

function drawProbes() {
  const names = seriesNames((name) => !always.has(name) && !name.startsWith('val_'));
  const section = find('probes');
  if (!names.length) return section.remove();
  const box = make('div', { class: 'charts' });
  section.append(box);
  const layered = new Map();
  for (const name of names) {
    const parts = /^(.*)\.(\d+)$/.exec(name);
    const kind = parts ? parts[1] : name;
    layered.set(kind, [...(layered.get(kind) || []), name]);
  }
  for (const [kind, own] of layered)
    own.forEach((name) => addChart(box, own.length > 1 ? `${kind}, layer ${name.slice(kind.length + 1)}` : kind,
      () => curveChart(name, kind, state.smoothing, false), { linked: true }));
  return undefined;
}
