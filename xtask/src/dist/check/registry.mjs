// A registry for npm on the loopback that serves the packages in a folder. Prints its address.
//   node registry.mjs FOLDER

import { createHash } from "node:crypto"
import { execFileSync } from "node:child_process"
import { readFileSync, readdirSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"

const folder = process.argv[2]
const packages = new Map()

for (const file of readdirSync(folder).filter((name) => name.endsWith(".tgz"))) {
  const path = join(folder, file)
  const manifest = JSON.parse(execFileSync("tar", ["-xzOf", path, "package/package.json"], { encoding: "utf8" }))
  const integrity = `sha512-${createHash("sha512").update(readFileSync(path)).digest("base64")}`
  packages.set(manifest.name, { file, manifest, integrity })
}

const server = createServer((request, response) => {
  const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname).slice(1)
  const found = packages.get(path)
  if (found) {
    const { manifest, file, integrity } = found
    const dist = { tarball: `http://${request.headers.host}/-/${file}`, integrity }
    const versions = { [manifest.version]: { ...manifest, hasInstallScript: !!manifest.scripts?.postinstall, dist } }
    response.setHeader("content-type", "application/json")
    response.end(JSON.stringify({ name: manifest.name, "dist-tags": { latest: manifest.version }, versions }))
    return
  }
  const file = [...packages.values()].map((known) => known.file).find((name) => path === `-/${name}`)
  if (file) {
    response.end(readFileSync(join(folder, file)))
    return
  }
  response.statusCode = 404
  response.end("{}")
})

server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`))
