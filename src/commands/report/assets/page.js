'use strict';
// What a page can do beyond being read: sort, filter, copy, zoom. Everything it shows is text, set as text.
(() => {
  const $ = id => document.getElementById(id);
  const data = JSON.parse($('data').textContent);
  const SVG = 'http://www.w3.org/2000/svg';

  const element = (name, attributes, text) => {
    const e = document.createElement(name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const shape = (name, attributes, text) => {
    const e = document.createElementNS(SVG, name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const size = bytes => {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
    let unit = 0;
    while (bytes >= 1023.995 && unit < 6) { bytes /= 1024; unit++; }
    return (unit ? bytes.toFixed(2) : bytes) + ' ' + units[unit];
  };
  const cut = (text, width, letter = 6.8) => {
    const room = Math.floor(width / letter);
    return room < 3 ? '' : text.length > room ? text.slice(0, room - 1) + '…' : text;
  };
  document.querySelectorAll('.needs-script').forEach(e => e.remove());

  // Commands: a button that copies.
  document.querySelectorAll('.cmd').forEach(line => {
    const code = line.querySelector('code');
    const button = element('button', { type: 'button', class: 'copy', 'aria-label': 'Copy: ' + code.textContent }, 'copy');
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = 'copied';
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = 'selected';
      }
      setTimeout(() => { button.textContent = 'copy'; }, 2000);
    });
    line.append(button);
  });

  // Tables: sorted by a click on a heading, by the exact values; filtered by text.
  document.querySelectorAll('table').forEach(table => {
    const body = table.tBodies[0];
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      if (body.rows.length < 2) return;
      const button = element('button', { type: 'button' }, heading.textContent);
      heading.replaceChildren(button);
      button.addEventListener('click', () => {
        const number = heading.classList.contains('n');
        const now = heading.getAttribute('aria-sort');
        const down = now ? now === 'ascending' : number;
        const key = row => {
          const cell = row.cells[column];
          return number ? (cell.dataset.v === undefined ? -Infinity : Number(cell.dataset.v)) : cell.textContent;
        };
        const rows = [...body.rows].map(row => [key(row), row]);
        rows.sort(([a], [b]) => (number ? a - b : a.localeCompare(b, 'en', { numeric: true })) * (down ? -1 : 1));
        body.append(...rows.map(([, row]) => row));
        headings.forEach(h => h.removeAttribute('aria-sort'));
        heading.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      });
    });
    if (table.dataset.filter !== 'yes' || body.rows.length < 8) return;
    const what = table.caption.textContent;
    const input = element('input', { type: 'search', placeholder: 'filter', 'aria-label': 'Filter: ' + what });
    const told = element('span', { class: 'quiet', 'aria-live': 'polite' });
    const tools = element('div', { class: 'tools' });
    tools.append(input, told);
    table.parentElement.before(tools);
    input.addEventListener('input', () => {
      const wanted = input.value.toLowerCase();
      let shown = 0;
      for (const row of body.rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
        if (!row.hidden) shown++;
      }
      told.textContent = wanted ? shown + ' of ' + body.rows.length + ' rows' : '';
    });
  });

  // Rectangles by shares: squarified (Bruls, Huizing, van Wijk).
  const squarify = (values, x, y, w, h) => {
    const out = [];
    const total = values.reduce((a, b) => a + b, 0);
    const scale = total ? w * h / total : 0;
    let at = 0;
    while (at < values.length) {
      const side = Math.min(w, h);
      let sum = 0, best = Infinity, end = at;
      for (; end < values.length; end++) {
        const area = values[end] * scale, next = sum + area;
        const worst = Math.max(side * side * values[at] * scale / (next * next), next * next / (side * side * area));
        if (end > at && !(worst <= best)) break;
        best = worst;
        sum = next;
      }
      const thick = side > 0 ? sum / side : 0;
      let along = 0;
      for (; at < end; at++) {
        const long = thick > 0 ? values[at] * scale / thick : 0;
        out.push(w >= h ? [x, y + along, thick, long] : [x + along, y, long, thick]);
        along += long;
      }
      if (w >= h) { x += thick; w = Math.max(0, w - thick); } else { y += thick; h = Math.max(0, h - thick); }
    }
    return out;
  };

  // The treemap: by three measures, and into each box.
  const treemap = () => {
    const svg = $('treemap'), line = $('treemap-line');
    const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
    const names = ['written', 'in the core', 'address space'];
    let measure = 0, way = [data.boxes];
    const within = box => {
      const of = b => b.b[measure];
      const used = (box.u || []).reduce((sum, b) => sum + of(b), 0);
      let drawn = box.c || [];
      if (used > 0 && used <= of(box)) {
        const rest = of(box) - used;
        drawn = rest > 0 ? [...box.u, { n: box.r, b: [rest, rest, rest] }] : box.u;
      } else if (measure === 0 && used > 0 && used <= box.b[1]) {
        drawn = box.u;
      }
      return drawn.filter(b => of(b) > 0).sort((a, b) => of(b) - of(a) || (a.n < b.n ? -1 : 1));
    };
    const tools = $('treemap-tools');
    const buttons = names.map((name, at) => {
      const button = element('button', { type: 'button', 'aria-pressed': String(at === 0) }, name);
      button.addEventListener('click', () => { measure = at; way = [data.boxes]; draw(); });
      tools.append(button);
      return button;
    });
    const path = element('span', { class: 'tools', id: 'treemap-way' });
    tools.append(path);
    const say = (box, parent) => {
      const share = parent && parent.b[measure] ? ' (' + (100 * box.b[measure] / parent.b[measure]).toFixed(1) + ' % of ' + parent.n + ')' : '';
      line.textContent = box.n + ': ' + size(box.b[measure]) + ' ' + names[measure] + share;
    };
    const boxed = (box, parent, [x, y, w, h], depth, trail) => {
      if (depth && (w < 1.5 || h < 1.5)) return null;
      const g = shape('g', {});
      if (box.f) g.setAttribute('class', box.f);
      if (depth === 0) g.dataset.v = box.b[measure];
      g.append(shape('title', {}, box.n + ': ' + size(box.b[measure])));
      g.append(shape('rect', { class: depth ? 'box in' : 'box', x, y, width: w, height: h }));
      if (w > 36 && h > 15) {
        g.append(shape('text', { class: depth ? 'small' : 'big', x: x + 4, y: y + 13 }, cut(box.n + ' ' + size(box.b[measure]), w - 6, depth ? 6.8 : 7.8)));
      }
      let parts = within(box);
      while (parts.length === 1) parts = within(parts[0]);
      const here = [...trail, box];
      g.addEventListener('pointerover', e => { e.stopPropagation(); say(box, parent); });
      if (parts.length) {
        const go = e => { e.stopPropagation(); e.preventDefault(); way = here; draw(true); };
        g.addEventListener('click', go);
        if (depth === 0) {
          g.setAttribute('role', 'button');
          g.setAttribute('tabindex', '0');
          g.setAttribute('aria-label', 'Zoom into ' + box.n + ', ' + size(box.b[measure]));
          g.addEventListener('keydown', e => { if (e.key === 'Enter' || e.key === ' ') go(e); });
          g.addEventListener('focus', () => say(box, parent));
        }
      }
      if (depth < 2 && parts.length && w > 70 && h > 44) {
        const places = squarify(parts.map(b => b.b[measure]), x + 2, y + 18, w - 4, h - 20);
        parts.forEach((part, at) => {
          const child = boxed(part, box, places[at], depth + 1, here);
          if (child) g.append(child);
        });
      }
      return g;
    };
    const draw = focus => {
      const top = way[way.length - 1];
      const colour = [...way].reverse().find(box => box.f);
      let parts = within(top);
      while (parts.length === 1 && within(parts[0]).length) parts = within(parts[0]);
      const places = squarify(parts.map(b => b.b[measure]), 0, 0, width, height);
      svg.replaceChildren(...parts.map((part, at) => boxed(part, top, places[at], 0, way)).filter(g => g));
      svg.setAttribute('class', colour ? colour.f : '');
      svg.setAttribute('role', 'group');
      svg.setAttribute('aria-label', 'Treemap of ' + top.n + ', ' + names[measure] + ': ' + size(top.b[measure]));
      svg.dataset.sum = top.b[measure];
      buttons.forEach((button, at) => button.setAttribute('aria-pressed', String(at === measure)));
      path.replaceChildren(...way.map((box, at) => {
        if (at === way.length - 1) return element('span', {}, box.n + ': ' + size(box.b[measure]));
        const up = element('button', { type: 'button' }, box.n + ' ›');
        up.addEventListener('click', () => { way = way.slice(0, at + 1); draw(true); });
        return up;
      }));
      line.textContent = '';
      if (focus) (svg.querySelector('[tabindex]') || path.querySelector('button') || buttons[measure]).focus();
    };
    svg.addEventListener('keydown', e => {
      if (e.key === 'Escape' && way.length > 1) { way = way.slice(0, -1); draw(true); }
    });
    draw();
  };

  // Merged stacks: a click makes a frame as wide as the picture.
  const flame = svg => {
    const width = 1180;
    const line = document.querySelector('[data-of="' + svg.id + '"]');
    const frames = [...svg.querySelectorAll('g')].map(g => {
      const rect = g.querySelector('rect');
      return { g, rect, title: g.querySelector('title').textContent, depth: Number(g.dataset.d), x: Number(rect.getAttribute('x')), w: Number(rect.getAttribute('width')) };
    });
    const name = frame => frame.title.slice(0, frame.title.lastIndexOf(': '));
    const zoom = to => {
      for (const frame of frames) {
        const above = frame.depth < to.depth && frame.x <= to.x + .01 && frame.x + frame.w >= to.x + to.w - 1;
        const x = above ? 0 : (frame.x - to.x) / to.w * width;
        const w = above ? width : frame.w / to.w * width;
        const out = !above && (x < -.5 || x > width - .3 || frame.depth < to.depth);
        frame.g.setAttribute('visibility', out ? 'hidden' : 'visible');
        frame.rect.setAttribute('x', x);
        frame.rect.setAttribute('width', Math.max(0, Math.min(w, width - x)));
        const old = frame.g.querySelector('text');
        if (old) old.remove();
        const text = out ? '' : cut(name(frame), w - 5);
        if (text && w > 30) frame.g.append(shape('text', { class: 'small', x: x + 3, y: Number(frame.rect.getAttribute('y')) + 13 }, text));
      }
      line.textContent = to.title;
    };
    svg.setAttribute('role', 'group');
    frames.forEach(frame => {
      frame.g.setAttribute('role', 'button');
      frame.g.setAttribute('aria-label', frame.title);
      frame.g.setAttribute('tabindex', frame.depth < 2 ? '0' : '-1');
      frame.g.addEventListener('click', () => zoom(frame));
      frame.g.addEventListener('pointerover', () => { line.textContent = frame.title; });
      frame.g.addEventListener('focus', () => { line.textContent = frame.title; });
      frame.g.addEventListener('keydown', e => {
        if (e.key === 'Enter' || e.key === ' ') zoom(frame);
        else if (e.key === 'Escape') zoom(frames[0]);
        else if (e.key.startsWith('Arrow')) move(frame, e.key);
        else return;
        e.preventDefault();
      });
    });
    const move = (frame, key) => {
      const seen = f => f.g.getAttribute('visibility') !== 'hidden';
      const at = frames.indexOf(frame);
      let next;
      if (key === 'ArrowDown') next = frames.slice(at + 1).find(f => f.depth === frame.depth + 1 && seen(f));
      if (key === 'ArrowUp') next = frames.slice(0, at).reverse().find(f => f.depth === frame.depth - 1);
      if (key === 'ArrowRight') next = frames.slice(at + 1).find(f => f.depth === frame.depth && seen(f));
      if (key === 'ArrowLeft') next = frames.slice(0, at).reverse().find(f => f.depth === frame.depth && seen(f));
      if (next) next.g.focus();
    };
  };

  // The strip: every region by address, gaps left out, reserved ranges no wider than a fiftieth.
  const strip = () => {
    const s = data.strip, count = s.size.length;
    if (!count) return;
    const start = new BigUint64Array(count), length = new Float64Array(count), place = new Float64Array(count), wide = new Float64Array(count);
    let end = 0n, full = 0;
    const reserved = k => s.families[k] === 'f-reserved';
    for (let i = 0; i < count; i++) {
      start[i] = end + BigInt(s.gap[i]);
      end = start[i] + BigInt(s.size[i]);
      length[i] = Number(s.size[i]);
      if (!reserved(s.kind[i])) full += length[i];
    }
    let whole = 0;
    for (let i = 0; i < count; i++) {
      place[i] = whole;
      wide[i] = reserved(s.kind[i]) ? Math.min(length[i], full / 50 || length[i]) : length[i];
      whole += wide[i];
    }
    const canvas = element('canvas', { tabindex: '0', role: 'application', 'aria-label': 'Strip of all addresses. Plus and minus zoom, arrows move, Home shows all.', 'aria-describedby': 'strip-line' });
    $('strip').append(canvas);
    const line = $('strip-line'), pen = canvas.getContext('2d');
    let from = 0, to = whole, colours = {}, marked = -1;
    const css = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim() || '#888';
    const paint = () => {
      colours = {};
      for (const family of s.families) colours[family] = css(family.slice(2));
      colours.bg = css('bg');
      colours.fg = css('fg');
    };
    const find = x => {
      let low = 0, high = count - 1;
      while (low < high) { const mid = (low + high + 1) >> 1; if (place[mid] <= x) low = mid; else high = mid - 1; }
      return low;
    };
    const share = i => length[i] ? s.in_core[i] / length[i] : 0;
    const draw = () => {
      const ratio = devicePixelRatio || 1;
      const w = canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio)), h = canvas.height = Math.round(94 * ratio);
      const scale = w / (to - from);
      pen.fillStyle = colours.bg;
      pen.fillRect(0, 0, w, h);
      for (let i = find(from), x = 0; i < count && x < w;) {
        const left = (place[i] - from) * scale, width = wide[i] * scale;
        if (width >= 1) {
          pen.fillStyle = colours[s.families[s.kind[i]]];
          pen.globalAlpha = .28;
          pen.fillRect(left, 0, width, h);
          pen.globalAlpha = s.confidence[i] === 2 ? .6 : 1;
          pen.fillRect(left, h * (1 - share(i)), width, h * share(i));
          pen.globalAlpha = 1;
          pen.fillStyle = colours.bg;
          if (width > 4) pen.fillRect(left + width - 1, 0, 1, h);
          x = left + width;
          i++;
        } else {
          // More regions than pixels: a column shows what of each family it has.
          const sums = {}, stop = from + (Math.floor(x) + 1) / scale;
          let core = 0, all = 0;
          for (; i < count && place[i] < stop && wide[i] * scale < 1; i++) {
            const family = s.families[s.kind[i]];
            sums[family] = (sums[family] || 0) + wide[i];
            core += share(i) * wide[i];
            all += wide[i];
          }
          let y = h;
          for (const family in sums) {
            const high = all ? h * sums[family] / all : 0;
            pen.fillStyle = colours[family];
            pen.globalAlpha = .28 + .72 * (all ? core / all : 0);
            pen.fillRect(Math.floor(x), y - high, 1, high);
            y -= high;
          }
          pen.globalAlpha = 1;
          x = Math.floor(x) + 1;
        }
      }
      if (marked >= 0) {
        pen.strokeStyle = colours.fg;
        pen.lineWidth = 2 * ratio;
        pen.strokeRect((place[marked] - from) * scale, 1, Math.max(2, wide[marked] * scale), h - 2);
      }
    };
    const say = i => {
      const hex = n => '0x' + n.toString(16);
      const detail = s.details[s.detail[i]];
      line.textContent = hex(start[i]) + '–' + hex(start[i] + BigInt(s.size[i])) + ' · ' + s.kinds[s.kind[i]] + (detail ? ', ' + detail : '') + ' · ' + size(length[i]) + ', ' + size(s.in_core[i]) + ' in the core, ' + size(s.written[i]) + ' written · ' + ['exact', 'derived', 'heuristic'][s.confidence[i]];
    };
    const least = Math.min(whole, 4096 * 16);
    const move = (a, b) => {
      const span = Math.max(least, Math.min(whole, b - a));
      from = Math.max(0, Math.min(whole - span, a));
      to = from + span;
      draw();
    };
    const zoom = (at, factor) => { const middle = from + at * (to - from), span = Math.max(least, Math.min(whole, (to - from) * factor)); move(middle - at * span, middle - at * span + span); };
    const at = e => e.offsetX / canvas.clientWidth;
    canvas.addEventListener('wheel', e => { e.preventDefault(); zoom(at(e), e.deltaY > 0 ? 1.25 : .8); say(find(from + at(e) * (to - from))); }, { passive: false });
    let held = null;
    canvas.addEventListener('pointerdown', e => { held = [e.offsetX, from, to]; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener('pointerup', () => { held = null; });
    canvas.addEventListener('pointercancel', () => { held = null; });
    canvas.addEventListener('pointermove', e => {
      if (held) { const by = (e.offsetX - held[0]) / canvas.clientWidth * (held[2] - held[1]); move(held[1] - by, held[2] - by); }
      say(find(from + at(e) * (to - from)));
    });
    canvas.addEventListener('keydown', e => {
      const span = to - from;
      if (e.key === '+' || e.key === '=') zoom(.5, .7);
      else if (e.key === '-') zoom(.5, 1.4);
      else if (e.key === 'ArrowLeft') move(from - span / 10, to - span / 10);
      else if (e.key === 'ArrowRight') move(from + span / 10, to + span / 10);
      else if (e.key === 'Home') move(0, whole);
      else return;
      e.preventDefault();
      say(find((from + to) / 2));
    });
    const tools = $('strip-tools');
    for (const [name, act] of [['zoom in', () => zoom(.5, .5)], ['zoom out', () => zoom(.5, 2)], ['all', () => { marked = -1; move(0, whole); }]]) {
      const button = element('button', { type: 'button' }, name);
      button.addEventListener('click', act);
      tools.append(button);
    }
    const input = element('input', { type: 'search', id: 'strip-search', placeholder: 'address, kind or name', 'aria-label': 'Search the address space by address, kind or name' });
    tools.append(input);
    const show = i => {
      marked = i;
      const around = Math.max(wide[i] * 3, least);
      move(place[i] + wide[i] / 2 - around / 2, place[i] + wide[i] / 2 + around / 2);
      say(i);
    };
    const search = () => {
      const text = input.value.trim().toLowerCase();
      if (!text) return;
      const hex = /^(0x)?[0-9a-f`']{5,18}$/.test(text) ? text.replace(/[`']/g, '').replace(/^0x/, '') : '';
      if (hex) {
        const wanted = BigInt('0x' + hex);
        let low = 0, high = count;
        while (low < high) { const mid = (low + high) >> 1; if (start[mid] <= wanted) low = mid + 1; else high = mid; }
        if (low && wanted < start[low - 1] + BigInt(s.size[low - 1])) return show(low - 1);
        line.textContent = '0x' + hex + ' is not mapped' + (low && low < count ? ': between 0x' + (start[low - 1] + BigInt(s.size[low - 1])).toString(16) + ' and 0x' + start[low].toString(16) : '');
        return;
      }
      const fits = i => (s.kinds[s.kind[i]] + ' ' + s.details[s.detail[i]]).toLowerCase().includes(text);
      for (let step = 1; step <= count; step++) {
        const i = (marked + step + count) % count;
        if (fits(i)) return show(i);
      }
      line.textContent = 'no region matches “' + input.value + '” in its kind or name';
    };
    input.addEventListener('keydown', e => { if (e.key === 'Enter') search(); });
    input.addEventListener('search', search);
    addEventListener('resize', draw);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { paint(); draw(); });
    paint();
    draw();
    line.textContent = 'Height: share of a range that is in the core. Point at it for details, or search.';
  };

  treemap();
  document.querySelectorAll('svg.flame').forEach(flame);
  strip();
  document.documentElement.dataset.ready = 'yes';
})();
