// Light or dark, before anything is drawn: as the user last chose here, else as the system says.
"use strict";

(() => {
  const name = "headway-theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  const kept = () => {
    try {
      return localStorage.getItem(name);
    } catch {
      return null; // storage may be forbidden
    }
  };

  const apply = () => {
    const theme = kept() ?? (system.matches ? "dark" : "light");
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.setAttribute("aria-pressed", String(theme === "dark"));
    root.dispatchEvent(new CustomEvent("themechange"));
  };

  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme")?.addEventListener("click", () => {
      try {
        localStorage.setItem(name, root.dataset.theme === "dark" ? "light" : "dark");
      } catch {
        return;
      }
      apply();
    });
  });
})();
