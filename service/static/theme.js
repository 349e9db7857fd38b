// Sets the light or dark theme. As a classic script it runs before the browser paints the page.

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
