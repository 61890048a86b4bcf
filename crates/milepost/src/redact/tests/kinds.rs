//! Tests every kind of secret with a look-alike, further forms of some kinds, the allow list, and text that
//! looks random but is not secret.

use std::collections::BTreeSet;

use data_encoding::{BASE64, HEXLOWER};
use proptest::prelude::*;

use super::cases::CASES;
use super::{hex, noise};
use crate::redact::{self, AllowList, format_mark, json, rules};

/// Fills in the placeholders of a pattern from the table of cases.
fn filled(pattern: &str) -> String {
    let mut text = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let end = after.find('}').unwrap();
        let (kind, length) = after[..end].split_at(after[..end].len().min(1));
        match (kind, length.parse::<usize>()) {
            ("n", Ok(length)) => text.push_str(&noise(length)),
            ("h", Ok(length)) => text.push_str(&hex(length)),
            ("u", Ok(length)) => text.push_str(&noise(length).to_uppercase()),
            ("l", Ok(length)) => text.push_str(&noise(length).to_lowercase()),
            ("d", Ok(length)) => text.extend("1234567890".chars().cycle().take(length)),
            ("U", _) => text.push_str("3f9a1c7e-5b2d-4046-8f9a-1c7e5b2d8046"),
            _ => {
                text.push('{');
                rest = after;
                continue;
            }
        }
        rest = &after[end + 1..];
    }
    text + rest
}

#[test]
fn every_rule_has_a_case() {
    let with_case: BTreeSet<&str> = CASES.iter().map(|(rule, ..)| *rule).collect();
    assert_eq!(with_case, rules());
    assert!(with_case.len() >= 150, "{} kinds", with_case.len());
}

#[test]
fn every_case_is_found_and_its_look_alike_stays() {
    let mut wrong = Vec::new();
    for (rule, positive, negative) in CASES {
        let pattern = filled(positive);
        let (head, secret, tail) = match pattern.split_once('⟦') {
            Some((head, rest)) => {
                let (secret, tail) = rest.split_once('⟧').unwrap();
                (head, secret, tail)
            }
            None => ("", pattern.as_str(), ""),
        };
        for (before, after) in [("", ""), ("see: ", "\n"), ("`", "` it was, once")] {
            let text = format!("{before}{head}{secret}{tail}{after}");
            let expected = format!("{before}{head}{}{tail}{after}", format_mark(rule));
            let clean = redact::text(&text).unwrap_or_else(|| "nothing found".to_owned());
            if clean != expected {
                wrong.push(format!("{rule}: {text}\n    became {clean}"));
            }
            let quoted = serde_json::to_string(&[&text]).unwrap();
            let expected = serde_json::to_string(&[&expected]).unwrap();
            if json(&quoted, "state").as_ref() != Some(&expected) {
                wrong.push(format!("{rule} in JSON: {quoted}\n    became {:?}", json(&quoted, "state")));
            }
        }
        let stays = filled(negative);
        for text in [stays.clone(), format!("see: {stays}\n")] {
            if let Some(clean) = redact::text(&text) {
                wrong.push(format!("{rule}: {text} must not change\n    became {clean}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn passwords_in_lists_of_arguments_are_found() {
    let clean = |text: &str| json(text, "state").unwrap_or_else(|| panic!("nothing found in {text}"));
    for (list, hidden) in [
        (
            r#"["sshpass","-p","horse","ssh","-p","22","host"]"#,
            r#"["sshpass","-p","[redacted:sshpass_password]","ssh","-p","22","host"]"#,
        ),
        (
            r#"["/usr/bin/mysql","-u","root","-phorse","db"]"#,
            r#"["/usr/bin/mysql","-u","root","-p[redacted:mysql_password]","db"]"#,
        ),
        (
            r#"["sudo","docker","login","-p","horse"]"#,
            r#"["sudo","docker","login","-p","[redacted:login_password]"]"#,
        ),
        (r#"["htpasswd","-nb","me","horse"]"#, r#"["htpasswd","-nb","me","[redacted:htpasswd_password]"]"#),
        (r#"["redis-cli","-a","a horse"]"#, r#"["redis-cli","-a","[redacted:redis_password]"]"#),
        (
            r#"["openssl","-passin","pass:horse"]"#,
            r#"["openssl","-passin","pass:[redacted:openssl_password]"]"#,
        ),
    ] {
        assert_eq!(clean(list), hidden);
        assert_eq!(json(hidden, "state"), None, "{hidden}");
    }
    for stays in [
        r#"["docker","run","-p","80:80"]"#,
        r#"["mysql","-p","db"]"#,
        r#"["ssh","-p","22"]"#,
        r#"["git","log","-p"]"#,
    ] {
        assert_eq!(json(stays, "state"), None, "{stays}");
    }
}

/// Forms of a secret that the table of cases does not cover.
#[test]
fn further_forms_are_found() {
    for (text, clean) in [
        (
            "machine h\n  login me\n  password horse\nmachine i\n  login me\n  password horse\n",
            "machine h\n  login me\n  password [redacted:netrc_password]\nmachine i\n  login me\n  password [redacted:netrc_password]\n",
        ),
        ("default login me password horse", "default login me password [redacted:netrc_password]"),
        (
            "mysql -u root -p'two horses' db; ls -p x",
            "mysql -u root -p'[redacted:mysql_password]' db; ls -p x",
        ),
        (
            "docker login \\\n  -u me \\\n  -p \"horse\"",
            "docker login \\\n  -u me \\\n  -p \"[redacted:login_password]\"",
        ),
        (
            "sshpass -phorse ssh h && sqlcmd -Phorse",
            "sshpass -p[redacted:sshpass_password] ssh h && sqlcmd -P[redacted:sqlcmd_password]",
        ),
        ("Server=db;Uid=sa;Pwd=horse;", "Server=db;Uid=sa;Pwd=[redacted:password];"),
        ("host=db;user=sa;password=horse;", "host=db;user=sa;password=[redacted:password];"),
        ("export PASS=h0rse99", "export PASS=[redacted:password]"),
        (
            "https://example.org/?user=me&pass=h0rse99",
            "https://example.org/?user=me&pass=[redacted:password]",
        ),
        ("\"auth\": \"dXNlcjpwYXNzd29yZA==\"", "\"auth\": \"[redacted:registry_auth]\""),
        (
            "AZURE_DEVOPS_EXT_PAT=q7zk2xw9lm4rt8vb1nc6yd3hf5gj",
            "AZURE_DEVOPS_EXT_PAT=[redacted:azure_devops_token]",
        ),
    ] {
        assert_eq!(redact::text(text).as_deref(), Some(clean), "{text}");
        assert_eq!(redact::text(clean), None, "{clean}");
    }
    let token = format!("ghp{}{}", "_", noise(36));
    let text = format!("git clone https://{token}@example.org/r.git");
    assert_eq!(redact::text(&text).unwrap(), "git clone https://[redacted:github_token]@example.org/r.git");
    let text = format!("https://{token}:x-oauth-basic@example.org");
    assert_eq!(redact::text(&text).unwrap(), "https://[redacted:github_token]:x-oauth-basic@example.org");
}

#[test]
fn what_is_allowed_stays() {
    let allow = AllowList::new(["hunter2", "fixture-*"]).unwrap();
    assert_eq!(allow.redact_text("password=hunter2"), None);
    assert_eq!(allow.redact_text("password=fixture-1"), None);
    assert_eq!(allow.redact_text("password=hunter22").unwrap(), "password=[redacted:password]");
    let two = "password=hunter2 password=h0rse99";
    assert_eq!(allow.redact_text(two).unwrap(), "password=hunter2 password=[redacted:password]");
    // The allowed value as a JSON member, as an argument, as curl's password, and in a command line.
    for stays in [
        r#"{"password":"hunter2"}"#,
        r#"["mysql","--password","hunter2"]"#,
        r#"["sshpass","-p","hunter2"]"#,
        r#"["curl","-u","me:hunter2"]"#,
        r#""sshpass -p hunter2 ssh host""#,
    ] {
        assert_eq!(allow.redact_json(stays, "state"), None, "{stays}");
        assert!(json(stays, "state").is_some(), "{stays}");
    }
    for wrong in ["", "*", "abc*"] {
        assert!(AllowList::new([wrong]).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn images_checksums_and_lock_files_stay(image in prop::collection::vec(any::<u8>(), 0..3000), hash: [u8; 32], id: u128) {
        let (image, sum) = (BASE64.encode(&image), BASE64.encode(&[hash, hash].concat()));
        let hex = HEXLOWER.encode(&hash);
        let uuid = format!("{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}", id as u32, id as u16, id as u16 & 0xfff, (id >> 16) as u16 & 0xfff, id as u64 & 0xffff_ffff_ffff);
        let text = format!(
            "![i](data:image/png;base64,{image}) integrity sha512-{sum} h1:{}\n  \"checksum\": \"{hex}\",\n\
             resolved \"https://registry.example.org/a/-/a-1.0.0.tgz#{}\"\n{uuid} id={uuid} {hex} key={hex}\n",
            BASE64.encode(&hash), &hex[..40]
        );
        prop_assert_eq!(redact::text(&text), None);
    }
}
