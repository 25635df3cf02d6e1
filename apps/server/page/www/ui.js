/* ui.js - small things that every part of the page uses: elements, announcements, questions. */

export const byId = (id) => document.getElementById(id);

/* make('button', {class: 'x', title: 'y', onclick: f}, 'text', element…); true and false set or omit an attribute */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/* Sets the text only if it changes, so that a screen reader does not repeat it. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/* Tells a screen reader, politely. The same words twice are told twice. */
export function announce(text) {
  const line = make('p', {}, text);
  byId('announcer').append(line);
  setTimeout(() => line.remove(), 10000);
}

/* A message above everything that stays until it is dismissed or replaced; '' takes it away. */
export function notify(text, actions = []) {
  const box = byId('notice');
  box.hidden = !text;
  const buttons = actions.map(([label, act]) => make('button', { type: 'button', onclick: act }, label));
  if (text) buttons.push(make('button', { type: 'button', class: 'quiet', onclick: () => notify('') }, 'Dismiss'));
  byId('notice-text').textContent = text;
  byId('notice-actions').replaceChildren(...buttons);
}

/* Asks in a dialog; true if the answer is yes. */
export function ask(question, yes) {
  const dialog = byId('question');
  byId('question-text').textContent = question;
  byId('question-yes').textContent = yes;
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}

/* A file for the user's download folder */
export function download(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type: type + ';charset=utf-8' }));
  const link = make('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

/* To the clipboard; the old way where the page has no secure context. Resolves to whether it worked. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = make('textarea', { class: 'unseen', readonly: true, 'aria-hidden': 'true' });
    field.value = text;
    document.body.append(field);
    field.select();
    const worked = document.execCommand('copy');
    field.remove();
    return worked;
  }
}
