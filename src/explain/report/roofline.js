'use strict';
// Operations per second over operations per byte, both logarithmic, under the roofs that were measured on this machine.
report.roofline = (() => {
  const chart = document.getElementById('roofline-chart');
  const margin = {top: 24, right: 24, bottom: 48, left: 74};
  const {machine} = report.profile;
  const memory = machine.copies && machine.copies.length ? machine.copies : [{working_set: 0, bytes_per_second: machine.copy_bytes_per_second}];
  let dots = null, found = null, order = [], drawn = 0;

  const roofs = () => {
    const list = [[machine.flops_f32, 'multiply-adds, f32']];
    if (machine.flops_f64) list.push([machine.flops_f64, 'multiply-adds, f64']);
    if (machine.flops_half) list.push([machine.flops_half, `16-bit floats (${machine.matrix_unit})`]);
    return list.filter(r => r[0] > 0).sort((a, b) => b[0] - a[0]);
  };
  const rate = r => r.flops / (r.min_ms / 1000);
  const intensity = r => r.flops / r.bytes;

  function draw() {
    drawn = chart.clientWidth;
    const width = Math.max(480, chart.clientWidth - 40), height = Math.round(Math.min(560, Math.max(380, width * 0.44)));
    const all = report.rows.filter(r => r.min_ms > 0 && r.bytes > 0), counted = all.filter(r => r.flops > 0), moved = all.filter(r => !(r.flops > 0));
    const peak = Math.max(...roofs().map(r => r[0]), 1), slowest = memory[memory.length - 1].bytes_per_second, fastest = Math.max(...memory.map(m => m.bytes_per_second));
    const ridge = machine.flops_f32 / slowest;
    const xs = [...counted.map(intensity), ridge * 3, ridge / 40];
    const lowX = 10 ** Math.floor(Math.log10(Math.min(...xs))), highX = 10 ** Math.ceil(Math.log10(Math.max(...xs, peak / slowest * 1.5)));
    const lane = moved.length ? 54 : 0;
    const x = d3.scaleLog([lowX, highX], [margin.left + lane, width - margin.right]);
    // What only moves data has no place on the axis: in the lane it stands as far below the memory's roof as it is in truth.
    const rates = [...counted.map(rate), ...moved.map(r => lowX * r.bytes / (r.min_ms / 1000))];
    const lowY = 10 ** Math.floor(Math.log10(Math.max(Math.min(...rates, lowX * slowest, peak / 100), peak * 1e-9)));
    const y = d3.scaleLog([lowY, peak * 1.9], [height - margin.bottom, margin.top]);
    const decades = (low, high) => d3.range(Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9) + 1).map(e => 10 ** e);

    const svg = d3.create('svg').attr('viewBox', `0 0 ${width} ${height}`).attr('tabindex', 0).attr('role', 'application')
      .attr('aria-label', `Roofline of ${report.rows.length} kernels. Arrow keys go from the costliest to the next, Enter shows one.`);
    svg.append('g').attr('class', 'grid').selectAll('line').data(decades(lowX, highX)).join('line')
      .attr('x1', x).attr('x2', x).attr('y1', margin.top).attr('y2', height - margin.bottom);
    svg.append('g').attr('class', 'grid').selectAll('line').data(decades(lowY, peak * 1.9)).join('line')
      .attr('y1', y).attr('y2', y).attr('x1', margin.left).attr('x2', width - margin.right);
    if (lane) svg.append('rect').attr('class', 'lane').attr('x', margin.left).attr('y', margin.top).attr('width', lane - 8).attr('height', height - margin.top - margin.bottom);
    const short = v => (v >= 1 ? d3.format('~s')(v) : String(+v.toPrecision(2)));
    svg.append('g').attr('class', 'axis').attr('transform', `translate(0,${height - margin.bottom})`).call(d3.axisBottom(x).tickValues(decades(lowX, highX)).tickFormat(short).tickSizeOuter(0));
    svg.append('g').attr('class', 'axis').attr('transform', `translate(${margin.left},0)`).call(d3.axisLeft(y).tickValues(decades(lowY, peak * 1.9)).tickFormat(v => d3.format('~s')(v)).tickSizeOuter(0));
    svg.append('text').attr('class', 'axis-label').attr('x', (margin.left + lane + width - margin.right) / 2).attr('y', height - 8).attr('text-anchor', 'middle').text('operations per byte that must be moved');
    svg.append('text').attr('class', 'axis-label').attr('transform', `translate(16,${(height - margin.bottom + margin.top) / 2}) rotate(-90)`).attr('text-anchor', 'middle').text('operations per second');
    if (lane) svg.append('text').attr('class', 'axis-label').attr('x', margin.left + (lane - 8) / 2).attr('y', margin.top - 6).attr('text-anchor', 'middle').text('moves');

    const slope = (bandwidth, top, name, text) => {
      const end = Math.min(top / bandwidth, highX);
      svg.append('line').attr('class', name).attr('x1', x(lowX)).attr('y1', y(lowX * bandwidth)).attr('x2', x(end)).attr('y2', y(end * bandwidth));
      const at = Math.max(lowX * 1.15, lowY * 1.3 / bandwidth), angle = Math.atan2(y(10 * bandwidth) - y(bandwidth), x(10) - x(1)) * 180 / Math.PI;
      svg.append('text').attr('class', 'roof-label').attr('transform', `translate(${x(at)},${y(at * bandwidth) - 7}) rotate(${angle})`).text(text);
      return end;
    };
    const top = machine.flops_f32 || peak;
    if (fastest > 1.25 * slowest) slope(fastest, top, 'roof second', `within the caches, ${format.rate(fastest, 'B')}`);
    const corner = slope(slowest, peak, 'roof', `memory, ${format.rate(slowest, 'B')}`);
    for (const [flops, text] of roofs()) {
      const main = flops === peak;
      svg.append('line').attr('class', main ? 'roof' : 'roof second').attr('x1', x(Math.max(lowX, main ? Math.min(corner, flops / fastest) : flops / fastest))).attr('x2', x(highX)).attr('y1', y(flops)).attr('y2', y(flops));
      svg.append('text').attr('class', 'roof-label').attr('x', x(highX) - 4).attr('y', y(flops) - 7).attr('text-anchor', 'end').text(`${text}, ${format.rate(flops, 'FLOP')}`);
    }

    const largest = Math.max(...all.map(r => r.share), 1e-12), radius = r => 3.2 + 20 * Math.sqrt(r.share / largest);
    const place = r => (r.flops > 0 ? [x(intensity(r)), y(Math.max(rate(r), lowY))] : [margin.left + (lane - 8) / 2, y(Math.max(lowX * r.bytes / (r.min_ms / 1000), lowY))]);
    order = [...all].sort((a, b) => b.share - a.share);
    if (report.baseline)
      svg.append('g').selectAll('path').data(order.filter(r => r.flops > 0 && report.pairOf.get(r.index)?.before?.min_ms > 0)).join('path').attr('class', 'arrow')
        .attr('d', r => {
          const before = report.pairOf.get(r.index).before, [cx, cy] = place(r);
          const by = before.flops > 0 && before.bytes > 0 ? y(Math.max(lowY, before.flops / (before.min_ms / 1000))) : cy;
          const bx = before.flops > 0 && before.bytes > 0 ? x(Math.max(lowX, Math.min(highX, before.flops / before.bytes))) : cx;
          return `M${bx},${by}L${cx},${cy}`;
        });
    dots = svg.append('g').selectAll('circle').data(order).join('circle').attr('class', 'dot')
      .attr('cx', r => place(r)[0]).attr('cy', r => place(r)[1]).attr('r', radius).style('fill', r => colours.bound(r.bound))
      .on('mousemove', r => report.tip(d3.event, report.rowTip(r))).on('mouseleave', () => report.tip(null))
      .on('click', r => report.select(r.index, 'roofline'));
    svg.selectAll('.roof-label').raise();
    svg.on('keydown', () => {
      const {key} = d3.event, step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[key];
      if (step) {
        const i = order.findIndex(r => r.index === report.chosen);
        report.choose(order[Math.max(0, Math.min(order.length - 1, i < 0 ? 0 : i + step))].index);
      } else if (key === 'Enter' && report.chosen >= 0) report.select(report.chosen, 'keyboard');
      else return;
      d3.event.preventDefault();
    });
    const focused = chart.contains(document.activeElement);
    chart.replaceChildren(svg.node());
    if (focused) svg.node().focus({preventScroll: true});
    mark();
  }
  function mark() {
    if (!dots) return;
    dots.classed('chosen', r => r.index === report.chosen).classed('dim', r => Boolean(found && !found.has(r.index)));
    dots.order().filter(r => r.index === report.chosen).raise();
  }
  function legend() {
    const key = (b, text) => el('span.key', {}, el('span.swatch', {style: {background: colours.bound(b), 'border-radius': '50%'}}), `bound by ${text}`);
    const e = document.getElementById('roofline-legend');
    e.replaceChildren(...Object.entries(report.boundText).map(([b, text]) => key(b, text)), el('span.key', {}, 'A dot’s area grows with its time'));
    if (report.rows.some(r => !(r.flops > 0))) e.append(el('span.key', {}, 'Left lane: kernels that compute nothing'));
    if (report.baseline) e.append(el('span.key', {}, 'Lines lead from where a kernel was in the baseline'));
  }
  let waiting = 0;
  return {
    init() {
      draw();
      legend();
      new ResizeObserver(() => {
        if (chart.clientWidth === drawn) return;
        cancelAnimationFrame(waiting);
        waiting = requestAnimationFrame(draw);
      }).observe(chart);
    },
    refresh() { draw(); legend(); }, mark,
    highlight(rows) { found = rows; mark(); },
  };
})();
