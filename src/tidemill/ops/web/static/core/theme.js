// @ts-check
// Sets the chosen theme before anything is painted: "light", "dark", or the system's. A plain script, not a module, as
// modules run only after the page is parsed.

{
  const chosen = localStorage.getItem("tidemill.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
