const { name, first, frames, wait, last = frames.length - 1 } = JSON.parse(this.dataset.slider);
const range = make('input', {
  type: 'range', min: 0, max: last, value: first, ariaDisabled: String(Boolean(wait)),
  style: 'width: 16em; max-width: 100%; vertical-align: middle; accent-color: var(--jp-brand-color1, currentColor)',
});
const stop = make('span', { ariaHidden: 'true' }); // a screen reader hears it as the value of the slider
const picture = make('img', { style: 'max-width: 100%; height: auto' });
const show = () => {
  if (wait) range.value = first; // until the other pictures are there, only the first can be shown
  const frame = wait ? frames[0] : frames[range.value];
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
// A learner who waits with the focus on this slider goes on with the next one, which has all pictures.
if (wait) {
  range.onfocus = () => (globalThis.waitingSlider = name);
  range.onblur = ({ relatedTarget }) => relatedTarget && delete globalThis.waitingSlider;
} else if (globalThis.waitingSlider === name) {
  delete globalThis.waitingSlider;
  range.focus({ preventScroll: true });
}
