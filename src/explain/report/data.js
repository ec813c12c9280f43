'use strict';
// The page's data, indexed: rows (kernels) with their losses, values and nodes of the graph, the baseline matched by name.
const report = {};

report.data = JSON.parse(document.getElementById('data').textContent);
report.profile = report.data.profile;
report.texts = report.data.texts;
report.text = index => (index >= 0 ? report.texts[index] : undefined);

report.rows = report.profile.operators.map((o, index) => {
  const floor = Math.max(o.floors_ms.launch, o.floors_ms.memory, o.floors_ms.arithmetic);
  const loss = Math.max(0, o.min_ms - floor);
  const changes = o.changes || [];
  return {
    ...o, index, floor, loss, changes,
    kernel: report.data.kernels[index] || {code: [], declarations: []},
    gain: changes.length ? changes[0].gain_ms : loss,
    sources: o.sources.length ? o.sources : [{name: o.name, type: o.type}],
  };
});
// Names as paths, without the folders that nearly all of them begin with.
{
  const names = report.rows.flatMap(r => r.sources.map(s => s.name)), paths = names.filter(n => n.includes('/')).map(n => n.split('/').slice(0, -1));
  let shared = [];
  while (paths.length > names.length / 2) {
    const counts = d3.nest().key(p => p[shared.length] ?? '').rollup(list => list.length).entries(paths.filter(p => p.length > shared.length));
    const most = counts.sort((a, b) => b.value - a.value)[0];
    if (!most || most.value < 0.6 * names.length || shared.length > 20) break;
    shared = [...shared, most.key];
  }
  const start = shared.length ? shared.join('/') + '/' : null;
  report.shortName = name => (start && name.startsWith(start) ? '…/' + name.slice(start.length) : name);
}
report.totalLeast = report.rows.reduce((sum, r) => sum + r.min_ms, 0);
report.byTime = [...report.rows].sort((a, b) => b.min_ms - a.min_ms);

report.values = new Map(report.data.graph.values.map(v => [v.id, v]));
report.shapeText = v => `${v.dtype}[${v.shape.map(n => (n < 0 ? '?' : n)).join(', ')}]`;

// Pairs of operators of equal name; of several of one name the n-th with the n-th.
report.match = (now, before) => {
  const waiting = new Map();
  for (const o of before) {
    if (!waiting.has(o.name)) waiting.set(o.name, []);
    waiting.get(o.name).push(o);
  }
  const pairs = [];
  for (const o of now) {
    const other = (waiting.get(o.name) || []).shift();
    pairs.push({now: o, before: other || null});
  }
  for (const rest of waiting.values()) for (const o of rest) pairs.push({now: null, before: o});
  for (const p of pairs) p.delta = (p.now ? p.now.min_ms : 0) - (p.before ? p.before.min_ms : 0);
  return pairs;
};
report.baseline = report.data.baseline || null;
report.pairs = report.baseline ? report.match(report.rows, report.baseline.operators) : [];
report.pairOf = new Map(report.pairs.filter(p => p.now).map(p => [p.now.index, p]));

// The fusion log's lines on the operators of a kernel.
report.decisionsOf = row => {
  const names = new Set(row.sources.map(s => s.name));
  return report.profile.fusion.filter(d => names.has(d.producer) || names.has(d.consumer));
};
