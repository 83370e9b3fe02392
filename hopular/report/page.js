(() => {
  "use strict";
  const root = document.documentElement;

  // Theme: the system's until the reader chooses.
  const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
  const toggle = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemIsDark.matches);
  const nameToggle = () => { toggle.textContent = isDark() ? "Light" : "Dark"; };
  toggle.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; nameToggle(); });
  systemIsDark.addEventListener("change", nameToggle);
  toggle.hidden = false;
  nameToggle();

  // Sorting: a click or the Enter key on a heading; what is unknown stays last either way.
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent.trim() : cell.dataset.v;
  };
  const sortBy = (heading) => {
    const table = heading.closest("table");
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const known = rows.map((row) => valueOf(row, heading.cellIndex)).filter((value) => value !== "");
    const isNumeric = known.length > 0 && known.every((value) => Number.isFinite(Number(value)));
    const now = heading.getAttribute("aria-sort");
    const first = heading.dataset.first || "ascending";
    const next = now === "none" ? first : now === "ascending" ? "descending" : "ascending";
    const sign = next === "ascending" ? 1 : -1;
    rows.sort((a, b) => {
      const [x, y] = [valueOf(a, heading.cellIndex), valueOf(b, heading.cellIndex)];
      if (x === "" || y === "") return (x === "") - (y === "");
      return sign * (isNumeric ? Number(x) - Number(y) : x.localeCompare(y, undefined, { numeric: true }));
    });
    for (const other of table.tHead.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", next);
    body.append(...rows);
  };

  // Copying: the text of the element that the button names, or the setting in its row.
  const copy = async (button) => {
    const id = button.dataset.copy;
    const source = id ? document.getElementById(id) : button.closest("tr").querySelector(".params");
    const text = source.textContent;
    let isCopied = false;
    if (navigator.clipboard && isSecureContext) {
      isCopied = await navigator.clipboard.writeText(text).then(() => true, () => false);
    }
    if (!isCopied) {
      const area = document.createElement("textarea");
      area.value = text;
      area.style.cssText = "position:fixed;opacity:0";
      document.body.append(area);
      area.select();
      isCopied = document.execCommand("copy");
      area.remove();
    }
    const name = button.textContent;
    button.textContent = isCopied ? "Copied" : "Not allowed here";
    setTimeout(() => { button.textContent = name; }, 1500);
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.parentElement.hasAttribute("aria-sort")) sortBy(button.parentElement);
    else if (button.dataset.copy !== undefined) void copy(button);
    else if (button.id === "open-all") {
      const all = [...document.querySelectorAll("details.dataset")];
      const open = all.some((item) => !item.open);
      for (const item of all) item.open = open;
      button.textContent = open ? "Close all" : "Open all";
    }
  });

  // A link to a dataset opens it; printing opens them all.
  const openTarget = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.matches("details")) { target.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", openTarget);
  openTarget();
  const closed = [];
  addEventListener("beforeprint", () => {
    closed.push(...document.querySelectorAll("details.dataset:not([open])"));
    for (const item of closed) item.open = true;
  });
  addEventListener("afterprint", () => { for (const item of closed.splice(0)) item.open = false; });

  // Contents: mark the section being read.
  const links = new Map([...document.querySelectorAll("nav.contents > ol > li > a")].map((a) => [a.hash.slice(1), a]));
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "0px 0px -75% 0px" });
  for (const id of links.keys()) watch.observe(document.getElementById(id));
})();
