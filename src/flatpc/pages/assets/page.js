(() => {
  "use strict";
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // ---- tabs: arrows move between them, #name opens one ------------------------------------------------------------
  const tabs = all('[role="tab"]');
  const panelOf = (tab) => document.getElementById(tab.getAttribute("aria-controls"));

  function select(chosen) {
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
      panelOf(tab).hidden = tab !== chosen;
    }
    chosen.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  function open(tab) {
    select(tab);
    const anchor = "#" + panelOf(tab).id;
    if (decodeURIComponent(location.hash) !== anchor) history.pushState(null, "", anchor);
  }

  function followAddress() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const tab = tabs.find((each) => target && panelOf(each).contains(target));
    select(tab ?? tabs[0]);
    if (tab && target !== panelOf(tab)) target.scrollIntoView();
  }

  for (const [i, tab] of tabs.entries()) {
    tab.addEventListener("click", () => open(tab));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = tabs[to % tabs.length];
      open(next);
      next.focus();
    });
  }
  if (tabs.length) {
    followAddress();
    addEventListener("popstate", followAddress);
  }

  // ---- tables: a click on a head sorts, another one turns the order round --------------------------------------------
  function compare(a, b) {
    const [x, y] = [Number(a), Number(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a.localeCompare(b);
    return x - y;
  }

  for (const table of all("table.sortable")) {
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    for (const [j, head] of heads.entries()) {
      head.querySelector("button").addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => (down ? -1 : 1) * compare(a.cells[j].dataset.value, b.cells[j].dataset.value));
        table.tBodies[0].append(...rows);
      });
    }
  }

  // ---- figures: drawn when they come into view, in the colours of the page ------------------------------------------
  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function theme(plot) {
    const away = plot.clientWidth < 450 ? 1.2 : 1; // a narrow scene is cut at its sides
    const [ink, soft, line, grid, raised] = ["--ink", "--soft", "--line", "--grid", "--raised"].map(token);
    const flat = {
      gridcolor: grid, linecolor: line, tickcolor: line, showline: true, zeroline: false, automargin: true,
      title: { standoff: 8, font: { size: 13 } },
    };
    const deep = {
      gridcolor: line, zerolinecolor: line, linecolor: line, showbackground: false,
      tickfont: { size: 11, color: soft }, title: { font: { size: 12, color: soft } },
    };
    const camera = { eye: { x: 1.5 * away, y: 1.5 * away, z: 0.85 * away }, center: { x: 0, y: 0, z: -0.12 } };
    const bar = { outlinewidth: 0, thickness: 12, len: 0.85, tickfont: { size: 11, color: soft } };
    const scale = { colorscale: "Viridis", colorbar: bar };
    return {
      data: { surface: [scale], heatmap: [scale], contour: [scale] },
      layout: {
        font: { family: token("--font"), size: 13, color: ink },
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        colorway: ["#e07b28", "#3a7bd5", "#8e6bbf", "#2f9e79", "#c2518b", "#8a8f3c"],
        xaxis: flat, yaxis: flat,
        scene: { xaxis: deep, yaxis: deep, zaxis: deep, aspectmode: "cube", camera },
        margin: { l: 56, r: 16, t: 74, b: 48 }, // on top, buttons and two lines of legend
        legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12.5 } },
        hoverlabel: { bgcolor: raised, bordercolor: line, font: { color: ink, family: token("--font") } },
        modebar: { bgcolor: "rgba(0,0,0,0)", color: soft, activecolor: ink },
      },
    };
  }

  const drawn = new Set();
  const content = new Map();

  function draw(plot) {
    if (!content.has(plot)) content.set(plot, JSON.parse(plot.nextElementSibling.textContent));
    // plotly keeps the reader's view in this layout, so that a figure drawn again looks as it was left.
    const { data, layout } = content.get(plot);
    layout.template = theme(plot);
    if (layout.scene) layout.margin ??= { l: 0, r: 0, t: 0, b: 0 };
    Plotly.newPlot(plot, data, layout, {
      displaylogo: false, scrollZoom: false, plotlyServerURL: "", // what the page shows stays with the reader
      modeBarButtonsToRemove: ["sendChartToCloud", "select2d", "lasso2d"],
    });
    drawn.add(plot);
    if (plot.closest("[data-linked]")) linkCamera(plot);
  }

  // Scenes that follow another one, and the view each is on its way to.
  const wanted = new Map();

  function turn(plot, camera) {
    const busy = wanted.has(plot);
    wanted.set(plot, camera);
    if (busy) return;
    Plotly.relayout(plot, { "scene.camera": camera }).finally(() => {
      const latest = wanted.get(plot);
      wanted.delete(plot);
      if (latest !== camera) turn(plot, latest);
    });
  }

  let leader = null; // the scene that the reader turned last

  function linkCamera(plot) {
    const others = all(".plot", plot.closest("[data-linked]")).filter((other) => other !== plot);
    const show = (camera) => others.filter((other) => drawn.has(other)).forEach((other) => turn(other, camera));
    const lead = (change) => {
      const camera = change["scene.camera"];
      if (!camera || wanted.has(plot)) return false;
      leader = plot;
      show(camera);
      return true;
    };
    // A scene turns on for a moment after its last event: the others follow until it has rested for some frames.
    const settle = (seen, rested) => {
      const camera = leader === plot && drawn.has(plot) && plot._fullLayout.scene._scene.getCamera();
      if (!camera) return;
      const now = JSON.stringify(camera);
      if (now !== seen) {
        (plot.layout.scene ??= {}).camera = camera; // where it is drawn from if it is drawn again
        show(camera);
      }
      if (now !== seen || rested < 10) requestAnimationFrame(() => settle(now, now === seen ? rested + 1 : 0));
    };
    plot.on("plotly_relayouting", lead);
    plot.on("plotly_relayout", (change) => lead(change) && settle(JSON.stringify(change["scene.camera"]), 0));
  }

  // Browsers keep only a few 3-D contexts alive: figures out of sight give theirs back.
  function leave(plot) {
    if (!drawn.has(plot) || !plot.querySelector(".gl-container canvas")) return;
    Plotly.purge(plot);
    drawn.delete(plot);
  }

  const inView = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) leave(target);
      else if (!drawn.has(target)) draw(target);
    }
  }, { rootMargin: "400px" });

  const sizes = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      // Drawing a scene again, were it as wide as before, would turn it back under the reader's hand.
      const other = drawn.has(target) && Math.abs(contentRect.width - target._fullLayout.width) >= 1;
      if (other && contentRect.width > 0) Plotly.Plots.resize(target);
    }
  });

  for (const plot of all(".plot")) {
    inView.observe(plot);
    sizes.observe(plot);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const plot of drawn) Plotly.relayout(plot, { template: theme(plot) });
  });
})();
