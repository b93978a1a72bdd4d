const { name, first, frames, wait } = JSON.parse(this.dataset.slider);
this.onload = null;
const make = (tag, options) => Object.assign(document.createElement(tag), options);
const range = make('input', { type: 'range', min: 0, max: frames.length - 1, value: first, disabled: !!wait });
range.style = 'width: 16em; max-width: 100%; vertical-align: middle; accent-color: var(--jp-brand-color1, currentColor)';
range.dataset.lmSuppressShortcuts = 'true'; // in JupyterLab, arrow keys would move to another cell
range.onkeydown = (event) => {
  const notebook = event.key === 'Enter' && range.closest('.jp-Notebook');
  if (!notebook) return;
  notebook.focus();
  notebook.dispatchEvent(new KeyboardEvent('keydown', event));
};
const label = make('label', { textContent: `${name} ` });
label.append(range);
const stop = make('span', { ariaHidden: 'true' }); // a screen reader hears it as the value of the slider
const picture = make('img', { style: 'max-width: 100%; height: auto' });
const show = () => {
  const frame = frames[range.value];
  for (const side of ['src', 'alt', 'width', 'height']) picture.setAttribute(side, frame[side]);
  stop.textContent = ` ${frame.stop}${wait ?? ''}`;
  range.setAttribute('aria-valuetext', frame.stop);
};
range.oninput = show;
show();
const box = make('div', { className: 'stops' });
box.append(label, stop, make('br'), picture);
const load = () => frames.forEach((frame) => make('img', { src: frame.src })); // on the site, they are files
for (const event of ['pointerover', 'focusin']) box.addEventListener(event, load, { once: true });
this.replaceWith(box);
