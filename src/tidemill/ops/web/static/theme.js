// The chosen look, before anything is painted: "light", "dark", or nothing for the system's.

const chosen = localStorage.getItem("tidemill.theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
