// Opens pages of `coremap report` in a browser and checks what no test of the program can: that nothing is loaded or
// refused, that pictures, tables and data say the same, that each thing that can be clicked or typed works, in both
// colour schemes, on a phone, on paper and without scripts.
//
//   node check.mjs PAGE.html…            checks; one line a page, and status 1 where anything is wrong
//   node check.mjs --shots DIR PAGE…     also writes screenshots, to be looked at
//
// CHROMIUM names the browser where it is not /usr/bin/chromium.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const words = process.argv.slice(2);
const shots = words[0] === '--shots' ? words.splice(0, 2)[1] : null;
const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844 };

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});

/** A page that has said nothing and asked for nothing but itself. */
const open = async (file, options) => {
  const context = await browser.newContext({ viewport: DESKTOP, ...options });
  const page = await context.newPage();
  const heard = [], asked = [];
  page.on('console', message => heard.push(message.type() + ': ' + message.text()));
  page.on('pageerror', error => heard.push('error: ' + error));
  page.on('dialog', dialog => { heard.push('dialog: ' + dialog.message()); dialog.dismiss(); });
  page.on('request', request => asked.push(request.url()));
  await page.addInitScript(() => addEventListener('securitypolicyviolation', e => console.error('refused ' + e.violatedDirective + ' ' + e.blockedURI)));
  const url = pathToFileURL(resolve(file)).href;
  await page.goto(url);
  const quiet = () => {
    assert.deepEqual(heard, [], 'console messages');
    // An icon that is a data: URL is no request to anybody.
    assert.deepEqual(asked.filter(u => !u.startsWith('data:')), [url], 'requests');
  };
  return { context, page, quiet };
};

const accessible = async (page, what, rules) => {
  await page.evaluate(axe);
  const found = await page.evaluate(rules => globalThis.axe.run(document, { resultTypes: ['violations'], ...(rules && { runOnly: rules }) }), rules);
  const serious = found.violations.filter(v => v.impact === 'serious' || v.impact === 'critical');
  assert.deepEqual(serious.map(v => v.id + ': ' + v.nodes.slice(0, 3).map(n => n.target + ' ' + n.failureSummary).join(' | ')), [], 'axe, ' + what);
};

/** Figures as the page shows them and as its data has them. */
const sums = page => page.evaluate(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const number = e => Number(e.dataset.v);
  const add = list => [...list].reduce((sum, e) => sum + number(e), 0);
  const column = (id, at) => {
    const table = document.getElementById(id);
    const cells = rows => [...rows].map(row => row.cells[at]).filter(cell => cell && cell.dataset.v !== undefined);
    return table && { body: add(cells(table.tBodies[0].rows)), foot: table.tFoot ? cells(table.tFoot.rows).map(number) : [] };
  };
  return {
    data: {
      written: data.summary.total.written, in_core: data.summary.total.in_core, size: data.summary.total.size,
      threads: data.core.threads, stacks: data.stacks.total.reserved,
      heap: data.heapstat && data.heapstat.total.size,
      strip: { in_core: data.strip.in_core.reduce((a, b) => a + b, 0), written: data.strip.written.reduce((a, b) => a + b, 0) },
      boxes: data.boxes.b,
      malloc: data.malloc && data.malloc.total.committed,
      reserved: data.summary.kinds.filter(k => ['NoAccess', 'GCHeapReserve', 'StackGuard'].includes(k.kind)).reduce((sum, k) => sum + k.in_core, 0),
      findings: data.triage.findings.length,
    },
    bars: [...document.querySelectorAll('svg.kinds')].map(svg => ({ label: svg.getAttribute('aria-label'), sum: Number(svg.dataset.sum), parts: add(svg.querySelectorAll('g')) })),
    treemap: add(document.querySelectorAll('#treemap > g')),
    flames: [...document.querySelectorAll('svg.flame')].map(svg => ({ sum: Number(svg.dataset.sum), root: number(svg.querySelector('g')) })),
    kinds: { written: column('kinds', 2), in_core: column('kinds', 4), size: column('kinds', 5) },
    families: column('families', 1),
    types: column('types', 2),
    stacks: column('stacks', 4),
    arenas: column('arenas', 2),
    shown: document.querySelectorAll('.finding:not([data-id=since])').length,
  };
});

const compared = async page => {
  const s = await sums(page);
  for (const bar of s.bars) assert.equal(bar.parts, bar.sum, bar.label);
  const now = s.bars.filter(bar => /^(Written|In the core), by kind/.test(bar.label)).map(bar => bar.sum);
  assert.deepEqual(now, [s.data.written, s.data.in_core - s.data.reserved], 'bars');
  assert.equal(s.treemap, s.data.written, 'treemap');
  assert.deepEqual(s.data.boxes, [s.data.written, s.data.in_core, s.data.size], 'boxes');
  assert.deepEqual(s.data.strip, { in_core: s.data.in_core, written: s.data.written }, 'strip');
  for (const [name, column] of Object.entries(s.kinds)) {
    assert.equal(column.body, s.data[name], 'kinds: ' + name);
    assert.deepEqual(column.foot, [s.data[name]], 'kinds: sum of ' + name);
  }
  assert.equal(s.families.body, s.data.written, 'families');
  for (const flame of s.flames) assert.deepEqual(flame, { sum: s.data.threads, root: s.data.threads }, 'merged stacks');
  if (s.types) {
    const all = s.types.foot.pop();
    assert.equal(all, s.data.heap, 'types: sum');
    assert.equal(s.types.body + s.types.foot.reduce((a, b) => a + b, 0), all, 'types');
  }
  if (s.arenas) {
    const all = s.arenas.foot.pop();
    assert.equal(all, s.data.malloc, 'arenas: sum');
    // musl's malloc has no arenas: its groups are in a table of their own.
    if (s.arenas.body) assert.equal(s.arenas.body + s.arenas.foot.reduce((a, b) => a + b, 0), all, 'arenas');
  }
  assert.ok(s.shown >= 1 && s.shown <= s.data.findings, 'findings');
  return s.data;
};

/** Each thing that scripts do, once. */
const used = async (page, data) => {
  const text = selector => page.locator(selector).innerText();
  // The treemap: measures, into a box, and out again by the keyboard.
  const measures = page.locator('#treemap-tools > button');
  const figures = ['written', 'in_core', 'size'];
  for (let at = 2; at >= 0; at--) {
    await measures.nth(at).click();
    const drawn = await page.evaluate(() => [...document.querySelectorAll('#treemap > g')].reduce((sum, g) => sum + Number(g.dataset.v), 0));
    assert.equal(drawn, data[figures[at]], 'treemap by ' + figures[at]);
  }
  const box = page.locator('#treemap > g[role=button]').first();
  if (await box.count()) {
    await box.focus();
    await page.keyboard.press('Enter');
    assert.equal(await page.locator('#treemap-way button').count(), 1, 'zoomed in');
    await page.keyboard.press('Escape');
    if (await page.locator('#treemap-way button').count()) await page.locator('#treemap-way button').first().click();
    assert.equal(await page.locator('#treemap-way button').count(), 0, 'zoomed out');
  }
  await page.locator('#treemap').hover();
  assert.match(await text('#treemap-line'), /: [\d.]+ \w+ written/, 'line below the treemap');
  // Merged stacks: a frame becomes as wide as the picture, and narrow again.
  const flame = page.locator('svg.flame').filter({ visible: true });
  assert.equal(await flame.count(), 1, 'one flame graph is shown');
  const frames = flame.locator('g');
  if (await frames.count() > 2) {
    const wide = frame => frame.locator('rect').evaluate(rect => Number(rect.getAttribute('width')));
    const last = frames.nth(1);
    await last.focus();
    await page.keyboard.press('Enter');
    assert.ok(await wide(last) > 1170, 'a frame fills the picture');
    await page.keyboard.press('Escape');
  }
  const radios = page.locator('input[name=flames]');
  if (await radios.count()) {
    for (const id of ['flame-managed', 'flame']) {
      await page.locator('#show-' + id).check();
      assert.deepEqual(await page.locator('svg.flame').evaluateAll(all => all.filter(e => e.checkVisibility()).map(e => e.id)), [id], 'merged stacks: ' + id);
    }
  }
  // The strip: keys zoom, the pointer tells, the search finds.
  const strip = page.locator('#strip canvas');
  await strip.scrollIntoViewIfNeeded();
  await strip.focus();
  const before = await strip.evaluate(canvas => canvas.toDataURL());
  for (let i = 0; i < 6; i++) await page.keyboard.press('+');
  assert.match(await text('#strip-line'), /^0x[0-9a-f]+–0x[0-9a-f]+ · \w+/, 'line below the strip');
  assert.notEqual(await strip.evaluate(canvas => canvas.toDataURL()), before, 'the strip zooms');
  await strip.hover();
  await page.mouse.wheel(0, -200);
  await page.keyboard.press('Home');
  const start = (await text('#regions tbody tr:first-child td:first-child')).trim();
  await page.fill('#strip-search', start);
  await page.keyboard.press('Enter');
  assert.ok((await text('#strip-line')).startsWith(start + '–'), 'search by address');
  await page.fill('#strip-search', '0xdead0000dead');
  await page.keyboard.press('Enter');
  assert.match(await text('#strip-line'), /is not mapped/, 'search of nothing');
  // Sorting by exact values, with the mouse and with keys.
  const order = () => page.evaluate(() => [...document.querySelectorAll('#kinds tbody tr')].map(row => Number(row.cells[5].dataset.v)));
  const heading = page.locator('#kinds th').nth(5);
  await heading.locator('button').click();
  const down = await order();
  assert.deepEqual(down, [...down].sort((a, b) => b - a), 'sorted');
  assert.equal(await heading.getAttribute('aria-sort'), 'descending');
  await heading.locator('button').focus();
  await page.keyboard.press('Enter');
  assert.deepEqual(await order(), [...down].sort((a, b) => a - b), 'sorted upwards');
  // Filtering.
  const filter = page.locator('input[type=search][aria-label^="Filter"]').first();
  if (await filter.count()) {
    await filter.fill('no such text anywhere');
    assert.match(await page.locator('.tools .quiet').filter({ hasText: 'rows' }).first().innerText(), /^0 of \d+ rows$/, 'filter');
    await filter.fill('');
  }
  // Copying, or where that is not allowed selecting.
  const copy = page.locator('#memory .copy').first();
  await copy.click();
  await page.waitForFunction(() => /copied|selected/.test(document.querySelector('#memory .copy').textContent));
};

const phone = async (file, name) => {
  const { context, page, quiet } = await open(file, { viewport: PHONE, isMobile: true, hasTouch: true });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, 'on a phone the page is ' + wide + ' pixels too wide');
  if (shots) await page.screenshot({ path: join(shots, name + '-phone.png') });
  quiet();
  await context.close();
};

const plain = async file => {
  const { context, page, quiet } = await open(file, { javaScriptEnabled: false });
  for (const id of ['families', 'subjects', 'kinds', 'regions', 'stacks', 'modules', 'treemap', 'completeness']) {
    assert.ok(await page.locator('#' + id).isVisible(), id + ' without scripts');
  }
  assert.ok(await page.locator('#treemap > g').count() > 0, 'the treemap without scripts');
  quiet();
  await context.close();
};

const check = async file => {
  const name = basename(file, '.html'), began = Date.now();
  for (const colorScheme of ['light', 'dark']) {
    const { context, page, quiet } = await open(file, { colorScheme });
    assert.equal(await page.evaluate(() => document.documentElement.dataset.ready), 'yes', 'the script ran to its end');
    const back = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(back, colorScheme === 'dark' ? 'rgb(15, 19, 24)' : 'rgb(255, 255, 255)');
    if (shots) {
      await page.screenshot({ path: join(shots, name + '-' + colorScheme + '.png') });
      if (colorScheme === 'light') {
        for (const id of await page.locator('section').evaluateAll(all => all.map(e => e.id))) {
          await page.locator('#' + id).screenshot({ path: join(shots, name + '-' + id + '.png') });
        }
      }
    }
    // What is no matter of colour is the same in both schemes.
    await accessible(page, colorScheme, colorScheme === 'dark' ? ['color-contrast'] : undefined);
    const data = await compared(page);
    if (colorScheme === 'light') {
      await used(page, data);
      const paper = await page.pdf({ printBackground: true });
      assert.ok(paper.length > 20_000, 'a print');
      await page.emulateMedia({ media: 'print' });
      assert.ok(!await page.locator('nav').isVisible() && await page.locator('#kinds').isVisible(), 'on paper');
    }
    quiet();
    await context.close();
  }
  await phone(file, name);
  await plain(file);
  console.log('ok ' + name + ', ' + ((Date.now() - began) / 1000).toFixed(1) + ' s');
};

let wrong = 0;
const left = [...words];
// Half of the time a page waits for the browser.
const work = async () => {
  for (let file = left.shift(); file; file = left.shift()) {
    try {
      await check(file);
    } catch (error) {
      wrong++;
      console.log('WRONG ' + basename(file) + ': ' + (error.stack || error));
    }
  }
};
await Promise.all([work(), work(), work()]);
await browser.close();
process.exit(wrong || !words.length ? 1 : 0);
