const { tokens, heads, layer, head, colours, more } = JSON.parse(this.dataset.explorer);
const n = tokens.length;
const colour = (weight) => colours[Math.round((weight * (colours.length - 1)) / 100)];
const chooser = make('select', { style: 'font: inherit' });
heads.forEach((_, place) => chooser.append(make('option', { textContent: place })));
const tiles = make('div', { style: 'display: flex; flex-wrap: wrap; gap: 6px; max-width: 30em; margin: 6px 0' });
const words = make('p', { role: 'status' });
const paper = 'background: white; color: black; border-collapse: collapse; font-size: 12px; width: auto; margin: 0';
const map = make('table', { style: paper });
const small = (weights, place) => {
  const picture = make('canvas', { width: n, height: n, style: 'width: 60px; height: 60px; image-rendering: pixelated' });
  const ink = picture.getContext('2d');
  weights.forEach((weight, at) => {
    ink.fillStyle = colour(weight);
    ink.fillRect(at % n, Math.floor(at / n), 1, 1);
  });
  const tile = make('button', { type: 'button', style: 'font: inherit; padding: 2px; line-height: 1.1' }, `H${place}`, make('br', {}), picture);
  tile.onclick = () => show(place);
  return tile;
};
const name = (token, side) => make('th', { scope: side, style: 'padding: 1px 4px; text-align: right' }, token);
const show = (chosen) => {
  [...tiles.children].forEach((tile, place) => {
    tile.style.outline = place === chosen ? '3px solid #d95f02' : '';
    tile.ariaPressed = place === chosen;
  });
  const { weights, said } = heads[chooser.value][chosen];
  words.textContent = said + more;
  const rows = tokens.map((token, query) => {
    const cells = tokens.map((_, key) => {
      const weight = weights[query * n + key];
      const shade = `background: ${colour(weight)}; color: ${weight > 41 ? 'black' : 'white'}; padding: 2px; text-align: center`;
      return make('td', { style: shade }, (weight / 100).toFixed(2));
    });
    return make('tr', {}, name(token, 'row'), ...cells);
  });
  const title = make('caption', { style: `${paper}; caption-side: top; font-weight: bold; padding: 4px` },
    `L${chooser.value}.H${chosen}: attention weights; row: query, column: key`);
  map.replaceChildren(title, make('tr', {}, make('td', {}), ...tokens.map((token) => name(token, 'col'))), ...rows);
};
const turn = (chosen) => {
  tiles.replaceChildren(...heads[chooser.value].map(({ weights }, place) => small(weights, place)));
  show(chosen);
};
chooser.value = layer;
chooser.onchange = () => turn(0);
turn(head);
replaceBy(make('div', {}, make('label', {}, 'layer ', chooser), tiles, words, make('div', { style: 'overflow-x: auto' }, map)));
