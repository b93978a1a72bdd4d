const { name, first, frames, wait } = JSON.parse(this.dataset.slider);
const range = make('input', {
  type: 'range', min: 0, max: frames.length - 1, value: first, disabled: Boolean(wait),
  style: 'width: 16em; max-width: 100%; vertical-align: middle; accent-color: var(--jp-brand-color1, currentColor)',
});
const stop = make('span', { ariaHidden: 'true' }); // a screen reader hears it as the value of the slider
const picture = make('img', { style: 'max-width: 100%; height: auto' });
const show = () => {
  const frame = frames[range.value];
  for (const part of ['src', 'alt', 'width', 'height']) picture.setAttribute(part, frame[part]);
  stop.textContent = ` ${frame.stop}${wait ?? ''}`;
  range.setAttribute('aria-valuetext', frame.stop);
};
range.oninput = show;
show();
const label = make('label', {}, `${name} `, range);
const box = make('div', { className: 'stops' }, label, stop, make('br', {}), picture);
const load = () => frames.forEach((frame) => make('img', { src: frame.src })); // on the site, they are files
for (const event of ['pointerover', 'focusin']) box.addEventListener(event, load, { once: true });
replaceBy(box);
