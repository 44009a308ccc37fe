import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { rootCertificates } from 'node:tls';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { writeAuthorities } from './authorities.js';
import { readSettings } from './settings.js';

const folder = mkdtempSync(path.join(tmpdir(), 'slipway-authorities-'));
test.after(() => rmSync(folder, { recursive: true }));

const ONE = rootCertificates[0] as string;
const written = (content: string) => {
  const file = path.join(folder, 'office.pem');
  writeFileSync(file, content);
  return file;
};

test('the programs get one file with the authorities of the system and of the setting', async () => {
  const bundle = await writeAuthorities({ programs: folder }, written(`# our office\n${ONE}\n`));
  const certificates = readFileSync(bundle, 'utf8').split('-----BEGIN CERTIFICATE-----').length - 1;
  assert.ok(certificates > 50, `${certificates} certificates`);
  assert.ok(readFileSync(bundle, 'utf8').endsWith(`${ONE}\n`));
  assert.is(statSync(bundle).mode & 0o777, 0o644);
});

test('a file without a readable certificate is rejected by the name of its setting', () => {
  const read = (file: string) => () => readSettings({ SLIPWAY_CA_FILE: file }, folder);
  assert.throws(read('nowhere.pem'), /^SLIPWAY_CA_FILE is ".*nowhere\.pem": it must be .*ENOENT/);
  assert.throws(read(written('no certificate')), /SLIPWAY_CA_FILE .*it has no certificate/);
  assert.throws(read(written(ONE.replace(/\n.{20}/, '\nAAAA'))), /SLIPWAY_CA_FILE/);
  assert.is(readSettings({ SLIPWAY_CA_FILE: path.basename(written(ONE)) }, folder).authorities, written(ONE));
});

test.run();
