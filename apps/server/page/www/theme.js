/* theme.js - sets the theme before anything is painted; a plain script, since modules run later. */
(() => {
  let theme = 'auto';
  try {
    theme = JSON.parse(localStorage.getItem('max-whisper-settings') || '{}').theme || 'auto';
  } catch { /* storage is refused: the system's theme */ }
  document.documentElement.dataset.theme = theme;
})();
