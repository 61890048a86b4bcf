//! The tested agents: the npm package of each, and the settings it needs to run unattended against the test
//! endpoint. API keys are dummies. The flags that bypass an agent's approvals must not be used outside this
//! sandbox.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::endpoint::ModelScript;
use super::sandbox::{Sandbox, Scope};
use crate::npm;
use crate::shell::{read_output, root};

pub(super) struct Agent {
    /// The name that `milepost agents` uses.
    pub(super) name: &'static str,
    package: &'static str,
    version: &'static str,
    program: &'static str,
    /// Writes the files that the agent needs before it starts.
    prepare: fn(&Sandbox, Scope) -> Result<()>,
    /// Passes the invocation and the endpoint's address, as arguments and environment variables.
    add_arguments: fn(&mut Command, &Invocation<'_>, address: &str),
}

/// One headless run of an agent. Every agent takes one prompt per process.
pub(super) struct Invocation<'a> {
    pub(super) script: ModelScript,
    pub(super) prompt: &'a str,
    pub(super) scope: Scope,
    /// Whether the agent continues its latest session in the project, instead of starting a new one.
    pub(super) continues: bool,
}

impl<'a> Invocation<'a> {
    /// A new session.
    pub(super) fn new(script: ModelScript, prompt: &'a str, scope: Scope) -> Self {
        Self { script, prompt, scope, continues: false }
    }
}

/// Every tested agent. This version of Claude Code is the newest that runs on Node 20.
pub(super) static AGENTS: [Agent; 4] = [
    Agent {
        name: "claude-code",
        package: "@anthropic-ai/claude-code",
        version: "2.1.197",
        program: "claude",
        prepare: |_, _| Ok(()),
        add_arguments: claude,
    },
    Agent {
        name: "gemini",
        package: "@google/gemini-cli",
        version: "0.61.0",
        program: "gemini",
        prepare: prepare_gemini,
        add_arguments: gemini,
    },
    Agent {
        name: "codex",
        package: "@openai/codex",
        version: "0.166.0",
        program: "codex",
        prepare: |_, _| Ok(()),
        add_arguments: codex,
    },
    Agent {
        name: "opencode",
        package: "opencode-ai",
        version: "1.18.33",
        program: "opencode",
        prepare: prepare_opencode,
        add_arguments: opencode,
    },
];

/// OpenCode installs this package next to its plugins before anything else. Offline, OpenCode would wait a
/// long time for the download.
const OPENCODE_PLUGIN: &str = "@opencode-ai/plugin";

impl Agent {
    fn folder(package: &str, version: &str) -> PathBuf {
        let name = package.replace('/', "-");
        root().join("target/agents").join(format!("{}-{version}", name.trim_start_matches('@')))
    }

    fn modules(&self) -> PathBuf {
        Self::folder(self.package, self.version).join("node_modules")
    }

    /// Installs the agent if needed and returns the version that it reports.
    pub(super) fn install(&self) -> Result<String> {
        let get = |package: &str| {
            npm::install(&Self::folder(package, self.version), &format!("{package}@{}", self.version))
        };
        let program = npm::program(&get(self.package)?, self.program)?;
        if self.name == "opencode" {
            get(OPENCODE_PLUGIN)?;
        }
        let home = tempfile::tempdir()?;
        let output_file = read_output(Command::new(program).arg("--version").env("HOME", home.path()))?;
        let output_file = output_file.trim();
        ensure!(
            output_file.contains(self.version),
            "{} reports version {output_file:?}, not {}",
            self.program,
            self.version
        );
        Ok(output_file.to_owned())
    }

    pub(super) fn prepare(&self, sandbox: &Sandbox, scope: Scope) -> Result<()> {
        (self.prepare)(sandbox, scope)
    }

    /// Installs the plugin of this repository with the agent's own commands.
    pub(super) fn install_plugin(&self, sandbox: &Sandbox) -> Result<()> {
        let (root, extension) =
            (root().display().to_string(), root().join("plugins/gemini").display().to_string());
        let commands: &[&[&str]] = match self.name {
            "claude-code" => {
                &[&["plugin", "marketplace", "add", &root], &["plugin", "install", "milepost@milepost"]]
            }
            "codex" => &[&["plugin", "marketplace", "add", &root], &["plugin", "add", "milepost@milepost"]],
            "gemini" => &[&["extensions", "install", &extension, "--consent"]],
            // OpenCode downloads packages from npm, so the test names the folder of the package.
            _ => {
                let settings = json!({ "plugin": [format!("file://{root}/plugins/opencode/index.js")] });
                return write(&sandbox.home.join(".config/opencode/opencode.json"), &settings.to_string());
            }
        };
        for words in commands {
            let mut command = sandbox.command(&self.modules().join(".bin").join(self.program));
            command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").args(*words);
            // Gemini asks whether to trust the folder of the extension.
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn()?;
            child.stdin.take().context("no stdin")?.write_all(b"y\n")?;
            let output = child.wait_with_output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{} {} failed: {said}", self.program, words.join(" "));
        }
        Ok(())
    }

    /// The command that runs the agent once.
    pub(super) fn command(&self, sandbox: &Sandbox, invocation: &Invocation<'_>) -> Command {
        let mut command = sandbox.command(&self.modules().join(".bin").join(self.program));
        (self.add_arguments)(&mut command, invocation, &sandbox.endpoint.address(invocation.script));
        command
    }
}

/// Claude Code rejects `bypassPermissions` for root, so the tools that it needs are allowed by name.
fn claude(command: &mut Command, invocation: &Invocation<'_>, address: &str) {
    command.env("ANTHROPIC_BASE_URL", address).env("ANTHROPIC_API_KEY", "dummy");
    command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    command.args(["-p", invocation.prompt, "--permission-mode", "acceptEdits", "--allowedTools", "Bash"]);
    command.args(invocation.continues.then_some("--continue"));
}

/// Gemini requires an authentication type in its settings before it starts.
fn prepare_gemini(sandbox: &Sandbox, _: Scope) -> Result<()> {
    let settings = json!({ "security": { "auth": { "selectedType": "gemini-api-key" } } });
    write(&sandbox.home.join(".gemini/settings.json"), &settings.to_string())
}

/// Names a model. Without one, Gemini first asks another model which one to use.
fn gemini(command: &mut Command, invocation: &Invocation<'_>, address: &str) {
    command.env("GOOGLE_GEMINI_BASE_URL", address).env("GEMINI_API_KEY", "dummy");
    command.env("GEMINI_CLI_TRUST_WORKSPACE", "true");
    command.args(["-m", "gemini-2.5-flash", "-p", invocation.prompt, "--approval-mode", "yolo"]);
    if invocation.continues {
        command.args(["--resume", "latest"]);
    }
}

/// One of the two models has all tools; the other has a single tool that runs JavaScript, which calls the
/// rest. The to-do list is a tool that users have to enable.
fn codex(command: &mut Command, invocation: &Invocation<'_>, address: &str) {
    let model = match invocation.scope {
        Scope::Project | Scope::Plugin => "gpt-5.5",
        _ => "gpt-6.1-sol",
    };
    let provider = format!(
        "model_providers.own={{name=\"own\",base_url=\"{address}\",wire_api=\"responses\",env_key=\"OWN_KEY\"}}"
    );
    command.env("OWN_KEY", "dummy").arg("exec");
    if invocation.continues {
        command.args(["resume", "--last"]);
    }
    command.arg("--json");
    for setting in
        ["model_provider=own", &format!("model={model}"), &provider, "tools.update_plan.enabled=true"]
    {
        command.args(["-c", setting]);
    }
    command.args(["--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"]);
    command.arg(invocation.prompt);
}

fn prepare_opencode(sandbox: &Sandbox, scope: Scope) -> Result<()> {
    let from = Agent::folder(OPENCODE_PLUGIN, AGENTS[3].version);
    let mut folders = vec![sandbox.home.join(".config/opencode")];
    if matches!(scope, Scope::Project) {
        folders.push(sandbox.project.join(".opencode"));
    }
    for folder in folders {
        std::fs::create_dir_all(&folder)?;
        for name in ["package.json", "package-lock.json"] {
            std::fs::copy(from.join(name), folder.join(name))?;
        }
        std::os::unix::fs::symlink(from.join("node_modules"), folder.join("node_modules"))?;
    }
    Ok(())
}

fn opencode(command: &mut Command, invocation: &Invocation<'_>, address: &str) {
    let limit = json!({ "context": 100_000, "output": 8_000 });
    let settings = json!({
        "provider": { "own": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "own",
            "options": { "baseURL": address, "apiKey": "dummy" },
            "models": { "model-1": { "name": "model-1", "tool_call": true, "limit": limit } },
        } },
        "model": "own/model-1",
        "permission": "allow",
        "autoupdate": false,
        "share": "disabled",
    });
    command.env("OPENCODE_CONFIG_CONTENT", settings.to_string()).args(["run", invocation.prompt]);
    command.args(invocation.continues.then_some("--continue"));
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    Ok(std::fs::write(path, text)?)
}
