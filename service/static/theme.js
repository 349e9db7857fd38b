// Light or dark. A classic script, so that it runs before anything is painted.

(() => {
  const system = matchMedia('(prefers-color-scheme: dark)');
  let chosen = 'auto';
  try {
    chosen = localStorage.getItem('regard-theme') ?? 'auto';
  } catch {
    // Storage is switched off: the choice lasts as long as the page.
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
      // As above.
    }
  }

  apply();
  system.addEventListener('change', apply);
  document.addEventListener('DOMContentLoaded', () => {
    for (const input of document.querySelectorAll('input[name=theme]')) {
      input.checked = input.value === chosen;
      input.addEventListener('change', () => choose(input.value));
    }
  });
})();
