//! The virtual environment of the Python checks, below `target/python`, with the tools that the requirements name.
//! Downloads them once. The wheel is installed into the same environment, anew each time.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::{is_installed, read_output, root, run_program};

/// The folder of everything that the checks create.
pub const FOLDER: &str = "target/python";
const REQUIREMENTS: &str = "crates/milepost-py/requirements.txt";

/// A virtual environment with the tools.
pub struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// Creates the environment, or uses the existing one if the requirements did not change. Returns why there is none.
    pub fn prepare() -> Result<Result<Self, String>> {
        if !is_installed("python3") {
            return Ok(Err("python3 is not installed".to_owned()));
        }
        let folder = root().join(FOLDER).join("environment");
        let wanted = std::fs::read_to_string(root().join(REQUIREMENTS)).context(REQUIREMENTS)?;
        let environment = Self { folder };
        let installed = environment.folder.join("requirements.txt");
        if std::fs::read_to_string(&installed).is_ok_and(|found| found == wanted)
            && read_output(Command::new(environment.python()).arg("--version")).is_ok()
        {
            return Ok(Ok(environment));
        }
        let _ = std::fs::remove_dir_all(&environment.folder);
        // Without a copy of pip, which some systems package separately.
        let mut make = Command::new("python3");
        make.args(["-m", "venv", "--without-pip"]).arg(&environment.folder);
        let made = read_output(&mut make);
        if let Err(e) = made {
            return Ok(Err(format!("cannot create a virtual environment: {}", last_line(&e))));
        }
        let mut pip = environment.pip();
        pip.args(["--requirement"]).arg(root().join(REQUIREMENTS));
        if let Err(e) = read_output(&mut pip) {
            return Ok(Err(format!("cannot install the tools: {}", last_line(&e))));
        }
        std::fs::write(&installed, wanted)?;
        Ok(Ok(environment))
    }

    /// The environment of an earlier call of `prepare`, which may be incomplete.
    pub fn existing() -> Self {
        Self { folder: root().join(FOLDER).join("environment") }
    }

    /// A program of the environment.
    pub fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join("bin").join(name));
        // Programs that tests start find the tools of this environment first.
        command.env("PATH", self.path()).env("VIRTUAL_ENV", &self.folder);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// The path of the interpreter.
    pub fn python(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    /// Installs the wheel, in place of the one that was installed before.
    pub fn install(&self, wheel: &Path) -> Result<()> {
        let mut pip = self.pip();
        pip.args(["--no-deps", "--no-index", "--force-reinstall"]).arg(wheel);
        run_program(&mut pip)
    }

    /// The system's pip, installing into this environment.
    fn pip(&self) -> Command {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "--python"]).arg(self.python());
        pip.arg("install");
        pip
    }

    fn path(&self) -> std::ffi::OsString {
        let own = self.folder.join("bin");
        let others = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(own).chain(std::env::split_paths(&others));
        std::env::join_paths(all).unwrap_or(others)
    }
}

/// The last line of an error, which says what is wrong.
fn last_line(e: &anyhow::Error) -> String {
    format!("{e:#}").lines().last().unwrap_or_default().to_owned()
}
