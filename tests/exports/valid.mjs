// Whether files are what a JSON schema says: node valid.mjs SCHEMA FILE…
import Ajv from 'ajv';
import fs from 'node:fs';

const [schema, ...files] = process.argv.slice(2);
const valid = new Ajv().compile(JSON.parse(fs.readFileSync(schema)));
for (const file of files) {
  if (!valid(JSON.parse(fs.readFileSync(file)))) {
    console.log(file, JSON.stringify(valid.errors.slice(0, 3)));
    process.exitCode = 1;
  }
}
