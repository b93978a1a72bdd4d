// What the tests ask of the page. `jupyterapp` is JupyterLab itself: the page alone shows an idle kernel half a
// second before one listens, and stored execution counts like fresh ones.
window.lesson = (() => {
  const panel = () => window.jupyterapp?.shell.currentWidget;
  const kernel = () => panel()?.sessionContext?.session?.kernel;
  const cells = () => panel().content.widgets;
  const codeCells = () => cells().filter(cell => cell.model.type === 'code');
  const outputs = cell => [...Array(cell.model.outputs.length).keys()].map(i => cell.model.outputs.get(i).toJSON());
  const countOf = cell => (cell.model.executionState === 'running' ? null : cell.model.executionCount);

  const prose = cell => {
    const copy = cell.node.querySelector('.jp-RenderedMarkdown').cloneNode(true);
    copy.querySelectorAll('code, mjx-container').forEach(element => element.remove());
    return copy.textContent;
  };

  // Whether something sticks out to the right where no reader can scroll to it.
  const isCut = element => {
    const right = element.getBoundingClientRect().right - 1;
    for (let box = element.parentElement; box !== document.body; box = box.parentElement) {
      const overflow = getComputedStyle(box).overflowX;
      const isPage = box.matches('.jp-WindowedPanel-outer');
      if (overflow !== 'visible' && box.getBoundingClientRect().right < right) return isPage || overflow === 'hidden';
      if (isPage) return false;
    }
  };

  // What one sees of colours that are painted over each other.
  const seen = (...colours) => {
    const pen = new OffscreenCanvas(1, 1).getContext('2d');
    for (pen.fillStyle of colours) pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  };

  // The colour of each piece of text in an element, and of the ground that it stands on.
  const inks = element =>
    [...element.querySelectorAll('*')]
      .filter(part => [...part.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim()))
      .map(part => {
        let ground = part;
        while (getComputedStyle(ground).backgroundColor === 'rgba(0, 0, 0, 0)') ground = ground.parentElement;
        const { backgroundColor } = getComputedStyle(ground);
        return [seen(backgroundColor, getComputedStyle(part).color), seen(backgroundColor)];
      });

  return {
    isReady() {
      const listens = kernel()?.connectionStatus === 'connected' && kernel().status === 'idle';
      return listens && cells().length > 0 && cells().every(cell => cell.isAttached);
    },
    isSaved: () => !panel().context.model.dirty,
    // JupyterLab notes what the kernel says of itself, which is a change if the file says otherwise.
    isSavedWhenOpened: () => kernel().info.then(() => !panel().context.model.dirty),
    hasKernel: () => Boolean(kernel()),
    fits() {  // neither wider than the window nor still as narrow as before, but for the side bar
      const left = window.innerWidth - panel().node.getBoundingClientRect().right;
      return 0 <= left && left < 100;
    },
    ids: () => cells().map(cell => cell.model.id),
    count: id => countOf(cells().find(cell => cell.model.id === id)),
    isInSight(id) {
      const { top, bottom } = cells().find(cell => cell.model.id === id)?.node.getBoundingClientRect() ?? {};
      return 0 < top && bottom < window.innerHeight;
    },
    notRun: () => codeCells().filter(cell => countOf(cell) === null).map(cell => cell.model.id),
    errors: () =>
      codeCells().flatMap(cell =>
        outputs(cell)
          .filter(output => output.output_type === 'error' || output.name === 'stderr')
          .map(output => `${cell.model.id}: ${output.evalue ?? output.text}`)
      ),
    async pictures() {
      await Promise.allSettled([...document.images].map(image => image.decode()));
      return codeCells().flatMap(cell =>
        [...cell.node.querySelectorAll('.jp-OutputArea-output img')].map(image => ({
          cell: cell.model.id,
          alt: image.alt,
          source: image.src,
          size: image.naturalWidth,
          shown: image.getBoundingClientRect().width,
          room: image.closest('.jp-OutputArea-output').clientWidth,
        }))
      );
    },
    rawFormulas: () =>
      cells()
        .filter(cell => cell.model.type === 'markdown' && prose(cell).includes('$'))
        .map(cell => `${cell.model.id}: a formula left as it was typed`),
    cutOff: () =>
      cells().flatMap(cell =>
        [...cell.node.querySelectorAll('.jp-OutputArea-output *, .jp-RenderedMarkdown *')]
          .filter(element => !element.closest('mjx-assistive-mml') && isCut(element))
          .map(element => `${cell.model.id}: cut off: ${element.textContent.slice(0, 40)}`)
      ),
    overlapping: () =>
      cells()
        .slice(1)
        .filter((cell, i) => cell.node.getBoundingClientRect().top < cells()[i].node.getBoundingClientRect().bottom - 1)
        .map(cell => `${cell.model.id}: over the cell above`),
    verdictInks: () => cells().flatMap(cell => [...cell.node.querySelectorAll('[role=status]')].flatMap(inks)),
  };
})();
