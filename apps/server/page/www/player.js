/* player.js - the sound of the entry that is shown: loads it, jumps, and tells where it is, once a frame. */
import * as settings from './settings.js';
import * as store from './store.js';
import { byId, say } from './ui.js';

const sound = byId('sound');
let shown = '';                 // the id whose sound is loaded
let url = '';
let onTime = () => {};

export function start(timeChanged) {
  onTime = timeChanged;
  const frame = () => {
    onTime(sound.currentTime);
    if (!sound.paused) requestAnimationFrame(frame);
  };
  sound.addEventListener('play', frame);
  for (const name of ['seeked', 'pause', 'ended']) sound.addEventListener(name, () => onTime(sound.currentTime));
  sound.addEventListener('error', () => {
    if (!sound.getAttribute('src')) return;
    byId('player').hidden = true;
    tell('This browser cannot play the format of this file. The text is not affected.');
  });
  sound.addEventListener('loadedmetadata', setSpeed);
}

function tell(text) {
  byId('no-sound').hidden = !text;
  say(byId('no-sound'), text);
}

export function setSpeed() {
  sound.playbackRate = Number(settings.get('speed')) || 1;
}

/* Loads the sound of an entry, '' for none; an entry that is being recorded has none yet. */
export async function load(id) {
  if (id === shown) return;
  shown = id;
  sound.pause();
  sound.removeAttribute('src');
  sound.load();
  URL.revokeObjectURL(url);
  url = '';
  byId('player').hidden = true;
  tell('');
  const blob = id ? await store.sound(id) : null;
  if (id !== shown || !id) return;
  byId('player').hidden = !blob;
  byId('download-sound').hidden = !blob;
  if (!blob) return tell('The sound is not kept in this browser.');
  url = URL.createObjectURL(blob);
  sound.src = url;
  onTime(0);
}

export const isLoaded = () => Boolean(url) && !byId('player').hidden;
export const isPlaying = () => !sound.paused;
export const time = () => sound.currentTime;
export const address = () => url;

export function toggle() {
  if (!isLoaded()) return;
  if (sound.paused) sound.play().catch(() => {});
  else sound.pause();
}

export function jump(seconds, play) {
  if (!isLoaded()) return;
  sound.currentTime = Math.max(0, seconds);
  if (play) sound.play().catch(() => {});
}

export const step = (seconds) => jump(sound.currentTime + seconds, false);
