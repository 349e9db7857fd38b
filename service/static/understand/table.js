// Tables of the explanation.

import { element } from '../common/dom.js';

/** Puts a table into a frame that scrolls, so that the page does not scroll sideways. */
export function scrolling(name, table) {
  return element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': name }, table);
}
