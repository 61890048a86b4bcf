//! Checks that an uninstall restores the settings from before the install, for generated and for handwritten
//! settings.

use proptest::prelude::*;

use super::ProgramName;
use super::content::{Content, InstallState, PriorState, Remainder};
use crate::agents::{AGENTS, Roots, Scope, UserFolders};

fn settings() -> Vec<Content> {
    let roots =
        Roots { project: "/p".into(), user: Some(UserFolders::default()), program: ProgramName::OnPath };
    let all = AGENTS.iter().flat_map(|agent| (agent.targets)(&roots, Scope::Project));
    all.map(|target| target.content).filter(|content| matches!(content, Content::Settings { .. })).collect()
}

fn is_jsonc(content: &Content) -> bool {
    matches!(content, Content::Settings { dialect: super::json::Dialect::Jsonc, .. })
}

/// Installs twice, then uninstalls with the recorded prior state. Returns the text that remains.
fn round(content: &Content, text: &str) -> String {
    let mut prior = PriorState::default();
    let installed = content
        .install(Some(text), &mut prior, &ProgramName::OnPath)
        .unwrap_or_else(|e| panic!("{text:?}: {e:?}"));
    let state = content.install_state(Some(&installed), &ProgramName::OnPath).unwrap();
    assert!(state.iter().all(|(_, s)| *s == InstallState::Current), "{state:?} in {installed}");
    assert_eq!(
        content.install(Some(&installed), &mut prior, &ProgramName::OnPath).unwrap(),
        installed,
        "a second install changes nothing"
    );
    let (left, rest) = content.uninstall(&installed, &prior).unwrap();
    if rest == Remainder::Blank {
        assert_eq!(left.trim(), "{}");
    }
    left
}

#[test]
fn what_people_write_comes_back() {
    let plain = [
        "{\n  \"a\": 1\n}\n",
        "{\n\t\"a\": {\n\t\t\"b\": []\n\t}\n}",
        "{\r\n   \"a\": 1,\r\n   \"hooks\": {\r\n      \"Stop\": [\r\n         {\"hooks\": []}\r\n      ]\r\n   }\r\n}\r\n",
        "{\"a\":1,\"hooks\":{\"Stop\":[{\"matcher\":\"\",\"hooks\":[{\"type\":\"command\",\"command\":\"x\"}]}]}}",
        "{ \"a\" : 1, \"mcp\" : { \"x\" : 1 }, \"mcpServers\" : { \"x\" : 1 } }\n\n",
        "{\n\"a\": 1,\n\n\n    \"hooks\": {\"Stop\": [], \"Mine\": [ ]}\n}",
        "\u{feff}{\n  \"a\": \"// no comment\"\n}",
        "{\n  \"a\": 1  ,\n  \"b\": 2   \n  }   ",
        "[\n]",
        "{\"hooks\": 3}",
    ];
    let comments = [
        "// head\n{\n  \"a\": 1, // one\n  \"b\": 2 // two\n  // end\n}\n// tail",
        "{\n  \"a\": [1, 2,], /* b */\n}\n",
        "{ // nothing\n}",
        "{ \"a\": 1 // one\n}",
        "{\"a\":1/* x */}",
        "{\"a\":null // \n }",
        "{\n  \"hooks\": { /* mine */ },\n  \"mcp\": {\n    // none\n  },\n  \"mcpServers\": {/**/},\n}\n",
    ];
    for content in settings() {
        for text in plain.iter().copied().chain(comments.iter().copied().filter(|_| is_jsonc(&content))) {
            let wrong =
                content.install(Some(text), &mut PriorState::default(), &ProgramName::OnPath).is_err();
            let edits_hooks = matches!(content, Content::Settings { hooks: Some(_), .. });
            assert_eq!(wrong, text == "[\n]" || edits_hooks && text == "{\"hooks\": 3}", "{text}");
            if !wrong {
                assert_eq!(round(&content, text), text);
            }
        }
        for text in comments.iter().copied().filter(|_| !is_jsonc(&content)) {
            assert!(
                content.install(Some(text), &mut PriorState::default(), &ProgramName::OnPath).is_err(),
                "{text}"
            );
        }
    }
}

#[test]
fn what_the_user_did_meanwhile_stays() {
    for content in settings() {
        let before = "{\n  \"a\": 1\n}\n";
        let installed =
            content.install(Some(before), &mut PriorState::default(), &ProgramName::OnPath).unwrap();
        let edited =
            installed.replace("\"a\": 1,", "\"a\": 2,").replace("\n}\n", ",\n  \"z\": [\n    1\n  ]\n}\n");
        let (left, _) = content.uninstall(&edited, &PriorState::default()).unwrap();
        assert_eq!(left, "{\n  \"a\": 2,\n  \"z\": [\n    1\n  ]\n}\n");
    }
}

#[test]
fn old_entries_are_brought_up_to_date_in_place() {
    let content = settings()[0];
    let other = r#"{"hooks":{"Stop":[{"hooks":[{"command":"/x/milepost hook claude-code --old"}]},{"hooks":[{"command":"b"}]}],"PreToolUse":[{"hooks":[{"command":"milepost hook claude-code"},{"command":"c"}]}]}}"#;
    let state = content.install_state(Some(other), &ProgramName::OnPath).unwrap();
    let InstallState::Stale(why) = &state[0].1 else { panic!("{state:?}") };
    assert!(
        why.contains("no hook for SessionStart") && why.contains("no longer used for PreToolUse"),
        "{why}"
    );
    assert!(
        why.contains("another command for PreToolUse, Stop") || why.contains("another command for Stop"),
        "{why}"
    );
    let installed = content.install(Some(other), &mut PriorState::default(), &ProgramName::OnPath).unwrap();
    assert_eq!(
        content.install_state(Some(&installed), &ProgramName::OnPath).unwrap()[0].1,
        InstallState::Current
    );
    let value: serde_json::Value = serde_json::from_str(&installed).unwrap();
    assert!(
        value["hooks"]["Stop"][0]["hooks"][0]["command"].as_str().unwrap().ends_with("|| cat >/dev/null")
    );
    assert_eq!(value["hooks"]["Stop"][1]["hooks"][0]["command"], "b", "other entries keep their position");
    assert_eq!(value["hooks"]["PreToolUse"][0]["hooks"], serde_json::json!([{"command": "c"}]));
    let (left, _) = content.uninstall(&installed, &PriorState::default()).unwrap();
    assert_eq!(
        left,
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"b"}]}],"PreToolUse":[{"hooks":[{"command":"c"}]}]}}"#
    );
}

#[test]
fn a_server_of_the_users_own_stays() {
    let content = settings()[1];
    let own =
        "{\"mcpServers\": {\"milepost\": {\"command\": \"docker\", \"args\": [\"run\", \"milepost\"]}}}";
    assert_eq!(content.install(Some(own), &mut PriorState::default(), &ProgramName::OnPath).unwrap(), own);
    assert_eq!(content.uninstall(own, &PriorState::default()).unwrap(), (own.to_owned(), Remainder::Text));
    let path = "{\"mcpServers\": {\"milepost\": {\"command\": \"/opt/bin/milepost\", \"args\": [\"mcp\"], \"env\": {}}}}";
    assert_eq!(content.install(Some(path), &mut PriorState::default(), &ProgramName::OnPath).unwrap(), path);
}

/// White space that every agent accepts.
fn space() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => Just(String::new()),
        3 => Just(" ".to_owned()),
        2 => Just("\n  ".to_owned()),
        1 => "[ \t\n]{0,4}",
        1 => Just("\r\n\t".to_owned()),
    ]
}

/// White space and comments.
fn remark() -> impl Strategy<Value = String> {
    prop_oneof![
        5 => space(),
        1 => "[a-z\"{},]{0,5}".prop_map(|s| format!(" // {s}\n ")),
        1 => "[a-z\"{},/ ]{0,5}".prop_map(|s| format!("/* {s} */")),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z]{1,3}",
        1 => Just("hooks".to_owned()),
        1 => Just("Stop".to_owned()),
        1 => Just("mcpServers".to_owned()),
        1 => Just("mcp".to_owned()),
        1 => Just("\\u00e9\\\"".to_owned()),
    ]
}

/// Any value in any layout. `gap` generates the text between tokens; `tail` allows trailing commas.
fn value(gap: BoxedStrategy<String>, tail: bool) -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("-1.5e3".to_owned()),
        "[a-z/*{},:]{0,6}".prop_map(|s| format!("\"{s}\"")),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let item = (gap.clone(), inner.clone(), gap.clone()).prop_map(|(a, v, b)| format!("{a}{v}{b}"));
        let member = (gap.clone(), name(), gap.clone(), gap.clone(), inner, gap.clone())
            .prop_map(|(a, n, b, c, v, d)| format!("{a}\"{n}\"{b}:{c}{v}{d}"));
        let joined = move |items: Vec<String>, comma: bool, end: String| {
            let comma = if comma && tail && !items.is_empty() { format!(",{end}") } else { String::new() };
            format!("{}{comma}", items.join(","))
        };
        let gap = gap.clone();
        prop_oneof![
            (prop::collection::vec(item, 0..4), any::<bool>(), gap.clone())
                .prop_map(move |(items, comma, end)| format!("[{}]", joined(items, comma, end))),
            (prop::collection::vec(member, 0..4), any::<bool>(), gap)
                .prop_map(move |(items, comma, end)| format!("{{{}}}", joined(items, comma, end))),
        ]
    })
    .boxed()
}

fn document(gap: BoxedStrategy<String>, tail: bool) -> impl Strategy<Value = String> {
    let around = gap.clone();
    let member = (name(), gap.clone(), value(gap.clone(), tail), gap)
        .prop_map(|(name, before, value, after)| format!("{before}\"{name}\":{value}{after}"));
    (around.clone(), prop::collection::vec(member, 1..5), around)
        .prop_map(|(a, members, b)| format!("{a}{{{}}}{b}", members.join(",")))
}

/// Removes blanks from empty containers, because an uninstall without the record may drop them.
fn without_blanks_in_empty_ones(text: &str) -> String {
    let mut result = String::new();
    for c in text.chars() {
        if matches!(c, '}' | ']') {
            let trimmed = result.trim_end();
            if trimmed.ends_with(['{', '[']) {
                result.truncate(trimmed.len());
            }
        }
        result.push(c);
    }
    result
}

fn comes_back(text: &str, content: &Content) -> Result<(), TestCaseError> {
    // Only the record can restore a blank file.
    prop_assume!(!text.trim().is_empty());
    let mut prior = PriorState::default();
    let Ok(installed) = content.install(Some(text), &mut prior, &ProgramName::OnPath) else { return Ok(()) };
    prop_assert!(
        content
            .install_state(Some(&installed), &ProgramName::OnPath)
            .unwrap()
            .iter()
            .all(|(_, s)| *s == InstallState::Current)
    );
    prop_assert_eq!(
        content.install(Some(&installed), &mut prior.clone(), &ProgramName::OnPath).unwrap(),
        installed.clone()
    );
    let (left, _) = content.uninstall(&installed, &prior).unwrap();
    prop_assert_eq!(without_blanks_in_empty_ones(&left), without_blanks_in_empty_ones(text), "{}", installed);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn plain_settings_come_back(text in document(space().boxed(), false)) {
        for content in settings() {
            comes_back(&text, &content)?;
        }
    }

    #[test]
    fn settings_with_comments_come_back(text in document(remark().boxed(), true)) {
        for content in settings().iter().filter(|content| is_jsonc(content)) {
            comes_back(&text, content)?;
        }
    }

    #[test]
    fn any_text_is_edited_or_refused(text in "[\\[\\]{}\",:/* \n a-c]{0,40}") {
        for content in settings() {
            comes_back(&text, &content)?;
        }
    }
}
