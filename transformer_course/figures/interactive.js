this.onload = null;
const make = (tag, { style = '', ...options }, ...inside) => {
  const made = Object.assign(document.createElement(tag), options);
  made.style = style;
  made.append(...inside);
  // In JupyterLab, every key would go to the notebook, which would move to another cell.
  if ('disabled' in made) made.dataset.lmSuppressShortcuts = 'true';
  return made;
};
// Only the keys that run a cell still go to the notebook.
const replaceBy = (box) => {
  box.onkeydown = (event) => {
    const runs = event.key === 'Enter' && (event.shiftKey || event.ctrlKey || event.altKey);
    const notebook = runs && box.closest('.jp-Notebook');
    if (!notebook) return;
    event.preventDefault();
    notebook.focus();
    notebook.dispatchEvent(new KeyboardEvent('keydown', event));
  };
  this.replaceWith(box);
};
