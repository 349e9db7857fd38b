// Opens Understand before the rest of the page is loaded, so that something moves at once.

import { keptView } from './common/language.js';
import { DEFAULTS, fromFragment } from './common/state.js';
import { Opening } from './understand/opening.js';
import { byId, element } from './common/dom.js';

const arrived = location.hash;
const opened = keptView() ?? arrived;

/** Returns the fragment of the view to show; Back and Forward work before the page is built. */
export const shownFragment = () => (location.hash === arrived ? opened : location.hash);

/** The opening of Understand; null until a view needs it. */
export const greeted = greet(fromFragment(opened) ?? DEFAULTS);

/** @param {Readonly<View>} view */
function greet(view) {
  document.body.dataset.way = view.way;
  if (view.way !== 'understand') return null;
  const opening = new Opening();
  opening.show(view);
  byId('understand').append(element('div', {}, opening.root));
  return opening;
}
