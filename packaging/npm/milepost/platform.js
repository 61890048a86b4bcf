// Finds the program in the package of this platform, which npm installs as an optional dependency.
"use strict"

/** The path of the program. Throws an error that says what to do if there is none. */
function findProgram() {
  const name = `@milepost/${process.platform}-${process.arch}`
  const file = process.platform === "win32" ? "milepost.exe" : "milepost"
  try {
    return require.resolve(`${name}/bin/${file}`)
  } catch {
    throw new Error(
      `the package ${name} is not installed. Reinstall without --omit=optional; if there is no package for this ` +
        "platform, build from source with `cargo install milepost-cli`",
    )
  }
}

module.exports = { findProgram }
