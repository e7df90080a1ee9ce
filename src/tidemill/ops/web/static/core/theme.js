// @ts-check
// Sets the selected theme before anything is painted: "light", "dark", or that of the system. A classic script, because
// modules run only after the page is parsed.

{
  const chosen = localStorage.getItem("tidemill.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
