// Compares the results of the clients' own tests: directly, and through the gateway. Ends with 1 if a test of an
// endpoint that the gateway passes on differs.
import { readFileSync } from "node:fs";

const folder = process.argv[2];
const read = (name) => readFileSync(`${folder}/${name}`, "utf8");

// Each returns the results of a run: name of the test -> [result, why].
const node = (way) => new Map(JSON.parse(read(`node-${way}.json`)).testResults.flatMap((file) =>
  file.assertionResults.map((t) => [t.fullName, [t.status, t.failureMessages.join("\n")]])));
const go = (way) => {
  const said = new Map(), ended = new Map();
  for (const line of read(`go-${way}.json`).trim().split("\n")) {
    const e = JSON.parse(line);
    if (!e.Test) continue;
    const name = `${e.Package.split("/v3")[1] || "/"} ${e.Test}`;
    if (e.Action === "output") said.set(name, (said.get(name) ?? "") + e.Output);
    if (["pass", "fail", "skip"].includes(e.Action)) ended.set(name, [e.Action, said.get(name)]);
  }
  return ended;
};

// Whether the test calls what the gateway does not serve, serves from a store of its own, or refuses as documented. The
// client for Node.js shows the answer, the one for Go shows the request.
const refused = /no such URL|takes (GET|POST) only|does not exist, or|stores no files|background: is not supported/;
const passedOn = new RegExp("POST /v1/(chat/completions|responses|completions|embeddings|moderations|" +
  "images/generations|audio/(speech|transcriptions|translations))$|GET /v1/models");
function unserved(why) {
  const [, method, path] = why.match(/(GET|POST|DELETE) (\/v1\/[^ ?]*)\S* HTTP\/1\.1/) ?? [];
  if (path) return !passedOn.test(`${method} ${path}`) || why.includes('"background":true');
  return refused.test(why) || why.includes("404 Not Found");
}

let differ = 0;
for (const [client, results] of Object.entries({ "openai-node": node, "openai-go": go })) {
  const direct = results("direct"), through = results("gateway");
  const count = { alike: 0, failedAlike: 0, skipped: 0, unserved: 0, other: 0 };
  for (const [name, [result]] of direct) {
    const [now, why] = through.get(name) ?? ["missing", ""];
    if (now === result && /skip|pending|todo/.test(result)) count.skipped++;
    else if (now === result && /pass/.test(result)) count.alike++;
    else if (now === result && !unserved(why)) count.failedAlike++;
    else if (unserved(why)) count.unserved++;
    else {
      count.other++;
      console.log(`${client}: ${name}: ${result} directly, ${now} through the gateway: ` +
        why.slice(-200).replace(/\s+/g, " "));
    }
  }
  differ += count.other;
  console.log(`${client}: ${direct.size} tests: ${count.alike} pass in both ways, ${count.failedAlike} fail in both, ` +
    `${count.skipped} are skipped, ${count.unserved} call what the gateway does not serve, ${count.other} differ`);
}
process.exit(differ ? 1 : 0);
