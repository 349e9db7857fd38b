// The terms that a map needs: those of the view, and the signs among its labels.

/**
 * Returns the names of the terms that a map shows.
 * @param {View} view
 * @param {Tables} tables
 * @returns {string[]}
 */
export function termsOf({ layer, norm, level }, { rows, columns }) {
  const labels = [...rows.labels, ...columns.labels];
  const has = (part) => labels.some((label) => label.includes(part));
  const shown = {
    layer: true,
    head: true,
    rollout: layer === 'rollout',
    valueNorms: norm === 'value_norms' && layer !== 'rollout',
    token: level === 'token',
    mark: has('\u2581'),
    cls: has('[CLS]'),
    sep: has('[SEP]'),
    end: labels.at(-1)?.startsWith('\u27e8') ?? false,
  };
  return Object.keys(shown).filter((name) => shown[name]);
}
