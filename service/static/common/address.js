// The address of the page: a link that the reader asked for, or the way into the page alone.

import { DEFAULTS, fromFragment, toFragment } from './state.js';

const bare = () => location.pathname + location.search;
const isLink = () => fromFragment(location.hash) !== null;
const fragmentOf = ({ way }) => (way === DEFAULTS.way ? '' : `#${toFragment({ ...DEFAULTS, way })}`);
const linkedWay = () => fromFragment(location.hash)?.way ?? DEFAULTS.way;
const isOfWay = () => location.hash === fragmentOf({ way: linkedWay() });

/** Puts a link to a view into the address, and returns the whole address. */
export function linkTo(view) {
  history.replaceState(null, '', `${bare()}#${toFragment(view)}`);
  return location.href;
}

/**
 * Keeps the address in step with the view. Texts stay out of the history of the browser: a link is
 * replaced as soon as the view differs from it. The way into the page stays in the address, so that
 * the browser's button Back returns to the other way.
 * @param {Store} store
 * @param {function(): View} linked Returns the view of the address.
 * @param {function(string): void} opened Called with the fragment of a link that has been opened.
 */
export function keepAddress(store, linked, opened) {
  store.subscribe((view, before) => {
    const wanted = fragmentOf(view);
    if (view.way !== before.way && location.hash !== wanted && !isSame(view, linked()))
      history.pushState(null, '', bare() + wanted);
    else if (isLink() && !isOfWay() && !isSame(view, linked()))
      history.replaceState(null, '', bare() + wanted);
  });
  addEventListener('hashchange', () => {
    if (isOfWay()) store.set({ way: linkedWay() });
    else if (isLink()) {
      store.set(linked());
      opened(location.hash);
    }
  });
}

const isSame = (view, linked) => toFragment(view) === toFragment(linked);
