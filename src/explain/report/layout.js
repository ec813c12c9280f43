'use strict';
// Places of nodes and edges. The layout runs beside the page, which stays usable meanwhile, or in it where that is refused.
report.layout = (() => {
  // The library is a module; here its last line, which exports, has no meaning.
  const library = document.getElementById('layout-library').textContent.replace(/^export .*$/m, '');
  const settings = count => ({nodesep: 28, ranksep: 44, rankdir: 'TB', ranker: count > 3000 ? 'longest-path' : undefined});
  const result = (nodes, edges) => ({
    nodes: nodes.map(n => [n.v, n.x, n.y]),
    edges: edges.map(e => e.points.map(p => [p.x, p.y])),
  });
  const nonce = document.currentScript.nonce;

  function beside(nodes, edges) {
    const source = `${library}
      onmessage = e => {
        const {nodes, edges, settings} = e.data;
        dagre.layout(nodes, edges, settings, {});
        postMessage((${result})(nodes, edges));
      };`;
    const url = URL.createObjectURL(new Blob([source], {type: 'text/javascript'}));
    return new Promise((resolve, reject) => {
      const worker = new Worker(url);
      const end = f => x => { worker.terminate(); URL.revokeObjectURL(url); f(x); };
      worker.onmessage = end(e => resolve(e.data));
      worker.onerror = end(e => { e.preventDefault(); reject(e); });
      worker.postMessage({nodes, edges, settings: settings(nodes.length)});
    });
  }
  function here(nodes, edges) {
    const script = document.createElement('script');
    script.nonce = nonce;
    script.textContent = `${library}\nreport.dagre = dagre;`;
    document.head.append(script);
    report.dagre.layout(nodes, edges, settings(nodes.length), {});
    return result(nodes, edges);
  }
  return async (nodes, edges) => {
    if (nodes.length === 0) return {nodes: [], edges: []};
    try {
      return await beside(nodes.map(n => ({...n})), edges.map(e => ({...e})));
    } catch (refused) {
      return here(nodes, edges);
    }
  };
})();
