'use strict';
// Two runs, or two models, side by side: totals, then operators matched by name with the largest differences first.
report.comparison = () => {
  const before = report.baseline;
  if (!before) return;
  const now = report.profile;
  document.getElementById('comparison').hidden = false;
  const body = document.getElementById('comparison-body');
  const setting = p => [p.machine && p.machine.processor, p.machine && !p.machine.device && p.threads ? `${p.threads} thread${p.threads === 1 ? '' : 's'}` : null, p.machine && p.machine.level].filter(Boolean).join(', ');
  const side = (title, p, extra) => el('div.card', {}, el('h3', {}, title), el('div.hint', {}, `${p.name || p.target || 'model'}`), el('div.value', {}, format.time(p.min_ms)),
    el('div.hint', {}, `median ${format.time(p.total_ms)}, ${p.operators.length} kernels`), el('div.hint', {}, setting(p)), extra);
  const change = now.min_ms / before.min_ms, better = change < 1;
  document.getElementById('comparison-hint').textContent =
    `Operators are matched by name; those of equal name in their order. Times are the least of each profile’s runs.${setting(now) !== setting(before) ? ' The two were measured in different settings.' : ''}`;
  const both = report.pairs.filter(p => p.now && p.before).length, added = report.pairs.filter(p => !p.before).length, gone = report.pairs.filter(p => !p.now).length;
  body.append(el('div.versus', {}, side('Baseline', before), side('This run', now),
    el('div.card', {}, el('h3', {}, 'Difference'), el('div.hint', {}, 'of the least run'),
      el(`div.value.${better ? 'better' : 'worse'}`, {}, format.delta(now.min_ms - before.min_ms)),
      el('div.hint', {}, change === 1 ? 'the same' : better ? `${format.ratio(1 / change)} as fast` : `${format.ratio(change)} the time`),
      el('div.hint', {}, `${both} matched, ${added} only here, ${gone} only in the baseline`))));
  const host = el('div.card.flush', {});
  body.append(host);
  const most = Math.max(...report.pairs.map(p => Math.abs(p.delta)), 1e-12);
  const one = p => p.now || p.before;
  const bar = p => {
    const w = 50 * Math.abs(p.delta) / most;
    return el('div.delta', {'aria-hidden': 'true'}, el('i', {style: {width: `${w}%`, left: p.delta < 0 ? `${50 - w}%` : '50%', background: p.delta < 0 ? 'var(--good)' : 'var(--bad)'}}));
  };
  const columns = [
    {key: 'op', text: 'Operator', value: p => one(p).name, cell: p => report.opCell(one(p))},
    {key: 'before', text: 'Baseline', number: true, value: p => (p.before ? p.before.min_ms : 0), cell: p => (p.before ? format.time(p.before.min_ms) : '–')},
    {key: 'now', text: 'This run', number: true, value: p => (p.now ? p.now.min_ms : 0), cell: p => (p.now ? format.time(p.now.min_ms) : '–')},
    {key: 'delta', text: 'Difference', number: true, value: p => Math.abs(p.delta), cell: p => el(`span.${p.delta < 0 ? 'better' : 'worse'}`, {}, format.delta(p.delta))},
    {key: 'bar', text: '', cell: bar},
    {key: 'what', text: '', cell: p => {
      if (!p.before) return 'only in this run';
      if (!p.now) return 'only in the baseline';
      if (p.now.type !== p.before.type) return `was ${p.before.type}`;
      if (p.before.schedule && p.now.schedule !== p.before.schedule) return `was scheduled: ${p.before.schedule}`;
      return format.ratio(p.before.min_ms > 0 ? p.now.min_ms / p.before.min_ms : 1);
    }},
  ];
  report.table(host, columns, report.pairs, {sort: 'delta', row: p => (p.now ? report.pickRow(p.now) : {})});
};
