// Sets the light or dark theme, and the way into the page. As a classic script it runs before the
// browser paints the page, which therefore does not jump.

(() => {
  const system = matchMedia('(prefers-color-scheme: dark)');
  let chosen = 'auto';
  try {
    chosen = localStorage.getItem('regard-theme') ?? 'auto';
  } catch {
    // Without storage the choice lasts as long as the page.
  }

  function apply() {
    const systems = system.matches ? 'dark' : 'light';
    document.documentElement.dataset.theme = chosen === 'auto' ? systems : chosen;
    document.dispatchEvent(new CustomEvent('themechange'));
  }

  function choose(theme) {
    chosen = theme;
    apply();
    try {
      localStorage.setItem('regard-theme', theme);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
  }

  let kept = null;
  try {
    kept = sessionStorage.getItem('regard-view');
  } catch {
    // Without storage the address alone tells the way.
  }
  const view = new URLSearchParams(kept ?? location.hash.slice(1));
  document.documentElement.dataset.way = view.get('way') ?? 'translate';
  document.documentElement.toggleAttribute('data-text', view.has('text'));
  const only = new URLSearchParams(location.search).get('only'); // one figure alone, to be embedded
  if (only !== null) document.documentElement.dataset.only = only;

  apply();
  system.addEventListener('change', apply);
  document.addEventListener('DOMContentLoaded', () => {
    /** @type {NodeListOf<HTMLInputElement>} */
    const inputs = document.querySelectorAll('input[name=theme]');
    for (const input of inputs) {
      input.checked = input.value === chosen;
      input.addEventListener('change', () => choose(input.value));
    }
  });
})();
