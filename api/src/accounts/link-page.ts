/**
 * Page that a mailed link opens. The page asks for a password and sends it to the link's route, together with the
 * token, which follows `#` in the URL. The page is the same for everybody, does not use up the token, and may load or
 * call only this API.
 */
import { createHash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { know } from '../http/route.js';
import { LINK_PAGE } from './mail-links.js';

const SCRIPT = `
const [, purpose, token] = /^#(verify|reset)=([\\w-]+)$/.exec(location.hash) ?? [];
const purposes = {
  verify: {
    title: 'Verify your e-mail address', label: 'Password of your account',
    path: 'verify', autocomplete: 'current-password',
  },
  reset: { title: 'Set a new password', label: 'New password', path: 'password/reset', autocomplete: 'new-password' },
};
const chosen = purposes[purpose];
const show = (text) => { document.querySelector('output').textContent = text; };
history.replaceState(null, '', location.pathname);
if (!chosen) show('This link is incomplete. Copy it from the mail again.');
else {
  const form = document.querySelector('form');
  document.title = document.querySelector('h1').textContent = chosen.title;
  document.querySelector('label span').textContent = chosen.label;
  form.elements.password.autocomplete = chosen.autocomplete;
  form.hidden = false;
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const response = await fetch(chosen.path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token, password: form.elements.password.value }),
    }).catch(() => undefined);
    if (response?.ok) form.hidden = true;
    const problem = response?.ok ? undefined : await response?.json().catch(() => undefined);
    const failure = problem?.detail ?? 'The platform does not answer. Try again.';
    show(response?.ok ? 'Done. You can close this page.' : failure);
  });
}
`;

const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Slipway</title>
<h1>Slipway</h1>
<form hidden method="post">
<label><span></span> <input name="password" type="password" required></label>
<button>Go on</button>
</form>
<output role="status"></output>
<script>${SCRIPT}</script>
</html>
`;

const SCRIPT_HASH = createHash('sha256').update(SCRIPT).digest('base64');
const POLICY =
  `default-src 'none'; script-src 'sha256-${SCRIPT_HASH}'; connect-src 'self'; form-action 'none'; ` +
  "base-uri 'none'; frame-ancestors 'none'";

know('GET', LINK_PAGE);

export function serveLinkPage(fastify: FastifyInstance): void {
  fastify.get(LINK_PAGE, (_request, reply) =>
    reply
      .headers({
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': POLICY,
        'referrer-policy': 'no-referrer',
        'x-frame-options': 'DENY',
      })
      .send(PAGE),
  );
}
