//! `cargo xtask python [build|bench] [--dev] [--short] [TEST…]`: builds the Python package and tests it. Builds the program and
//! the wheel, installs the wheel into a fresh virtual environment below `target/python`, and runs the tests, the type
//! checkers and the examples there. Prints what is skipped if this machine has no Python.

mod environment;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use milepost_testkit::postgres::{ClusterOptions, unless_skipped};

pub use self::environment::Environment;
use self::environment::FOLDER;
use crate::dist;
use crate::faults::Size;
use crate::shell::{build_program, read_output, root, run_program};

const CRATE: &str = "crates/milepost-py";

/// What `cargo xtask python` does.
#[derive(Debug, Default)]
pub struct Options<'a> {
    only_build: bool,
    is_bench: bool,
    is_dev: bool,
    is_short: bool,
    tests: Vec<&'a str>,
}

impl<'a> Options<'a> {
    /// Parses the arguments.
    pub fn parse(arguments: &[&'a str]) -> Result<Self> {
        let mut options = Self::default();
        for (n, argument) in arguments.iter().enumerate() {
            match *argument {
                "build" if n == 0 => options.only_build = true,
                "bench" if n == 0 => options.is_bench = true,
                "--dev" => options.is_dev = true,
                "--short" => options.is_short = true,
                flag if flag.starts_with('-') => bail!("unknown option {flag}; {}", crate::USAGE),
                test => options.tests.push(test),
            }
        }
        Ok(options)
    }

    /// The form for `cargo xtask test`: with what the other steps compiled, and without the tests that take long.
    pub fn for_tests(size: Size) -> Self {
        Self { is_dev: true, is_short: size == Size::Short, ..Self::default() }
    }
}

pub fn run(options: &Options<'_>) -> Result<()> {
    let environment = match Environment::prepare()? {
        Ok(environment) => environment,
        Err(why) => {
            println!("python: skipped: {why}");
            return Ok(());
        }
    };
    let wheel = build(&environment, options.is_dev)?;
    let size = std::fs::metadata(&wheel)?.len();
    println!("{}: {:.1} MB", wheel.display(), size as f64 / 1e6);
    if options.only_build {
        return Ok(());
    }
    environment.install(&wheel)?;
    if options.is_bench {
        return bench(&environment, options);
    }
    check(&environment, options)
}

/// Builds the package and installs it, for benchmarks. Returns why it cannot be installed.
pub fn install_package() -> Result<Result<Environment, String>> {
    let environment = match Environment::prepare()? {
        Ok(environment) => environment,
        Err(why) => return Ok(Err(why)),
    };
    let wheel = build(&environment, false)?;
    environment.install(&wheel)?;
    Ok(Ok(environment))
}

/// Builds the wheel for a release. Returns why it cannot be built.
pub fn build_wheel(is_dev: bool) -> Result<Result<PathBuf, String>> {
    match Environment::prepare()? {
        Ok(environment) => Ok(Ok(build(&environment, is_dev)?)),
        Err(why) => Ok(Err(why)),
    }
}

/// The environment with an installed package, whatever its version is, or the reason why there is none.
pub fn existing_package() -> Result<Environment, String> {
    let environment = Environment::existing();
    let mut check = Command::new(environment.python());
    let imports = "import milepost.langgraph, langgraph.checkpoint.sqlite, langgraph.checkpoint.postgres";
    match read_output(check.args(["-c", imports])) {
        Ok(_) => Ok(environment),
        Err(_) => Err("the package is not installed; the long form installs it".to_owned()),
    }
}

/// Builds the program and the wheel that contains it.
fn build(environment: &Environment, is_dev: bool) -> Result<PathBuf> {
    let profile = if is_dev { "dev" } else { "dist" };
    let built = if is_dev { build_program() } else { dist::build() }?;
    let scripts = root().join(FOLDER).join("data/scripts");
    std::fs::create_dir_all(&scripts)?;
    let program = scripts.join("milepost");
    std::fs::copy(built, &program).context("cannot copy the program")?;
    // Debug information would make the wheel ten times as large.
    run_program(Command::new("strip").arg("--strip-debug").arg(&program))?;
    let wheels = root().join(FOLDER).join("wheels");
    let _ = std::fs::remove_dir_all(&wheels);
    let mut maturin = environment.tool("maturin");
    maturin.current_dir(root().join(CRATE)).args(["build", "--quiet", "--locked", "--strip"]);
    maturin.args(["--profile", profile, "--out"]).arg(&wheels);
    run_program(&mut maturin)?;
    let mut built = std::fs::read_dir(&wheels)?.filter_map(|entry| Some(entry.ok()?.path()));
    let wheel = built.next().context("maturin built no wheel")?;
    ensure!(built.next().is_none(), "maturin built more than one wheel");
    Ok(wheel)
}

fn check(environment: &Environment, options: &Options<'_>) -> Result<()> {
    let folder = root().join(CRATE);
    let mut tests = environment.tool("pytest");
    tests.current_dir(&folder).args(["--quiet", "-p", "no:cacheprovider"]);
    if options.is_short {
        tests.args(["-m", "not long"]);
    }
    // Ends when the tests do.
    let server = match unless_skipped(ClusterOptions::new().without_fsync().start()) {
        Ok(server) => Some(server),
        Err(why) => {
            println!("python: tests with a PostgreSQL server {why}");
            None
        }
    };
    if let Some(server) = &server {
        tests.env("MILEPOST_TEST_POSTGRES_URL", server.url(&server.create_database()?));
    }
    run_program(tests.args(&options.tests))?;
    if !options.tests.is_empty() {
        return Ok(());
    }
    check_types(environment, &folder)
}

/// Compares the saver for LangGraph with LangGraph's own. Fails if a bound is missed.
fn bench(environment: &Environment, options: &Options<'_>) -> Result<()> {
    let mut bench = Command::new(environment.python());
    bench.current_dir(root().join(FOLDER)).arg(root().join(CRATE).join("bench/langgraph_savers.py"));
    if options.is_short {
        bench.arg("--short");
    }
    run_program(&mut bench)
}

/// Checks the types of the package, its stubs, the examples and the tests.
fn check_types(environment: &Environment, folder: &Path) -> Result<()> {
    let mut mypy = environment.tool("mypy");
    mypy.current_dir(folder).arg("--cache-dir").arg(root().join(FOLDER).join("mypy"));
    run_program(mypy.args(["--strict", "python", "examples", "tests"]))?;
    let mut stubs = environment.tool("stubtest");
    // The stubs are compared with the installed module.
    run_program(stubs.current_dir(root().join(FOLDER)).args(["--concise", "milepost._milepost"]))?;
    if let Err(e) = read_output(pyright(environment).arg("--version")) {
        println!("python: pyright skipped, because it cannot be downloaded: {e:#}");
        return Ok(());
    }
    let mut pyright = pyright(environment);
    pyright.current_dir(folder).arg("--pythonpath").arg(environment.python());
    run_program(pyright.args(["--warnings", "python", "examples", "tests"]))
}

/// Pyright, with the Node of this machine and a cache of its own. It downloads itself at its first use.
fn pyright(environment: &Environment) -> Command {
    let mut command = environment.tool("pyright");
    command.env("PYRIGHT_PYTHON_GLOBAL_NODE", "true").env("PYRIGHT_PYTHON_IGNORE_WARNINGS", "1");
    command.env("PYRIGHT_PYTHON_CACHE_DIR", root().join(FOLDER).join("pyright"));
    command
}
