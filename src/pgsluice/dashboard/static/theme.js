// Before the first paint: the colours that the viewer has chosen; without a choice those of the system.
(() => {
  const chosen = localStorage.getItem("pgsluice-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
})();
