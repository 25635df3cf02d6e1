/* settings.js - language, task, model and the other options: a form that is kept in localStorage. */
import { byId, make, say } from './ui.js';
import { LANGUAGES } from './languages.js';

const PLACE = 'max-whisper-settings';
const DEFAULTS = {
  language: '', task: 'transcribe', model: '', prompt: '', beam_size: '', temperature: '', guard: '', vad: false,
  microphone: '', keep: true, theme: 'auto', speed: '1', follow: true, selected: '',
};

let values = { ...DEFAULTS };
let first = '';                 // the server's default model
const englishOnly = (model) => (model || first).endsWith('.en');

export const get = (name) => values[name];

export function set(name, value) {
  values[name] = value;
  try {
    localStorage.setItem(PLACE, JSON.stringify(values));
  } catch { /* storage is refused: the settings last until the page is left */ }
}

/* What a request is made of, by the names of its fields */
export function options() {
  const { prompt, beam_size, temperature, guard, vad } = values, model = values.model || first;
  const { language, task } = englishOnly(model) ? DEFAULTS : values;
  return { language, task, model, prompt, beam_size, temperature, guard, vad };
}

/* "German, translated, 2 more options": what is set while the form is folded */
function summary() {
  const more = ['prompt', 'beam_size', 'temperature', 'guard', 'vad'].filter((name) => values[name]).length;
  return more ? `More options (${more} set)` : 'More options';
}

function show() {
  const only = englishOnly(values.model);
  for (const name of ['language', 'task']) byId(name).disabled = only;
  byId('english-only').hidden = !only;
  say(byId('more-summary'), summary());
  document.documentElement.dataset.theme = values.theme;
}

function fill() {
  for (const name of Object.keys(DEFAULTS)) {
    const field = byId(name);
    if (!field) continue;
    if (field.type === 'checkbox') field.checked = Boolean(values[name]);
    else field.value = values[name];
    if (field.value !== values[name] && field.type === 'select-one') field.value = DEFAULTS[name];
  }
}

/* The models that the server has; the one that was chosen stays chosen if it is still there. */
export function setModels(models) {
  const select = byId('model');
  const ids = models.map((model) => model.id);
  select.replaceChildren(...ids.map((id, i) => make('option', { value: i ? id : '' }, i ? id : `${id} (default)`)));
  if (!ids.slice(1).includes(values.model)) set('model', '');
  first = ids[0] || '';
  fill();
  show();
}

export function start(changed) {
  try {
    values = { ...DEFAULTS, ...JSON.parse(localStorage.getItem(PLACE) || '{}') };
  } catch { /* storage is refused or not ours: the defaults */ }
  byId('language').append(...LANGUAGES.map(([code, name]) => make('option', { value: code }, name)));
  byId('options-fold').open = matchMedia('(min-width: 821px)').matches;
  fill();
  show();
  for (const name of Object.keys(DEFAULTS)) {
    const field = byId(name);
    if (!field) continue;
    field.addEventListener('input', () => {
      if (!field.checkValidity()) return field.reportValidity();
      set(name, field.type === 'checkbox' ? field.checked : field.value);
      show();
      changed(name);
    });
  }
  byId('options').addEventListener('submit', (event) => event.preventDefault());
  byId('reset-options').addEventListener('click', () => {
    for (const name of ['prompt', 'beam_size', 'temperature', 'guard', 'vad']) set(name, DEFAULTS[name]);
    fill();
    show();
  });
}
