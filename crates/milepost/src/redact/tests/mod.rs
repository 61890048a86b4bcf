//! Tests which secrets the rules replace, wherever they are, and which text they keep. The secrets are
//! assembled from parts so that no file of the repository contains one.

mod cases;
mod kinds;

use proptest::prelude::*;

use super::*;

/// Letters and digits that look random.
fn noise(length: usize) -> String {
    "q7Zk2Xw9Lm4Rt8Vb1Nc6Yd3Hf5Gj0PsAeUiOq7Zk2Xw9Lm4Rt8Vb1Nc6Yd3Hf5Gj0PsAeUiO"
        .chars()
        .cycle()
        .take(length)
        .collect()
}

fn hex(length: usize) -> String {
    "3f9a1c7e5b2d8046".chars().cycle().take(length).collect()
}

/// Secrets of many kinds: rule and text.
fn secrets() -> Vec<(&'static str, String)> {
    let (n, h) = (noise, hex);
    let upper = |length| noise(length).to_uppercase();
    vec![
        ("aws_access_key", format!("AK{}{}", "IA", upper(16))),
        ("github_token", format!("gh{}{}", "p_", n(36))),
        ("github_token", format!("github{}{}_{}", "_pat_", n(22), n(59))),
        ("gitlab_token", format!("gl{}{}", "pat-", n(20))),
        ("slack_token", format!("xo{}2345678901-2345678901-{}", "xb-", n(24))),
        (
            "slack_webhook",
            format!("https://hooks.slack.{}/services/T{}/B{}/{}", "com", upper(8), upper(8), n(24)),
        ),
        ("stripe_key", format!("sk_{}{}", "live_", n(24))),
        ("google_api_key", format!("AI{}{}", "za", n(35))),
        ("openai_key", format!("sk{}{}", "-proj-", n(48))),
        ("anthropic_key", format!("sk{}{}", "-ant-api03-", n(93))),
        ("npm_token", format!("np{}{}", "m_", n(36))),
        ("pypi_token", format!("py{}{}", "pi-AgEIcHlwaS5vcmc", n(60))),
        ("twilio_key", format!("S{}{}", "K", h(32))),
        ("sendgrid_key", format!("S{}{}.{}", "G.", n(22), n(43))),
        ("azure_secret", format!("abc8{}{}", "Q~", n(34))),
        ("digitalocean_token", format!("do{}{}", "p_v1_", h(64))),
        ("huggingface_token", format!("h{}{}", "f_", n(34))),
        ("telegram_token", format!("{}:A{}{}", "1234567890", "A", n(33))),
        ("discord_token", format!("M{}.{}.{}", n(25), n(6), n(38))),
        ("private_key", key_block("RSA PRIVATE")),
        ("private_key", key_block("OPENSSH PRIVATE")),
        (
            "jwt",
            format!("ey{}.ey{}.{}", "JhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "JzdWIiOiIxMjM0NTY3ODkwIn0", n(43)),
        ),
        ("vault_token", format!("hv{}{}", "s.", n(24))),
        ("databricks_token", format!("da{}{}", "pi", h(32))),
        ("shopify_token", format!("shp{}{}", "at_", h(32))),
    ]
}

fn key_block(kind: &str) -> String {
    let lines: String = (0..6).map(|_| format!("{}\n", noise(64))).collect();
    format!("-----{} {kind} KEY-----\n{lines}-----{} {kind} KEY-----", "BEGIN", "END")
}

/// Values that only a keyword next to them identifies as secrets: rule, text before the value, value.
const BESIDE: [(&str, &str, &str); 21] = [
    ("password", "password=", "hunter2"),
    ("password", "Password: ", "Tr0ub4dor&3"),
    ("password", "DB_PASSWORD=", "kd83-Lq20"),
    ("password", "mysql --password ", "kd83Lq20"),
    ("password", "Server=db;User Id=sa;Pwd=", "s3cr3tPw"),
    ("password", "\"password\": \"", "p4ss,word;x"),
    ("password", "{\\\"password\\\":\\\"", "h3ll0world"),
    ("password", "<password>", "hunter22"),
    ("password", "export PGPASSWORD='", "l33t.pass"),
    ("token", "token=", "abc123def456ghi7"),
    ("token", "GITHUB_TOKEN: ", "0f8c2b7a9d3e4f5061728394a5b6c7d8"),
    ("token", "--token ", "9x8w7v6u5t4s3r"),
    ("token", "https://example.org/?access_token=", "Zm9vYmFyMTIz9876"),
    ("secret", "client_secret = \"", "8f3KqLz0PvTn4WcX"),
    ("secret", "aws_secret_access_key = ", "wJalrXUtnFEMI0K7MDENGbPxRfiCYzQh1+2/3abc"),
    ("api_key", "X-Api-Key: ", "q1w2e3r4t5y6u7i8"),
    ("api_key", "AccountKey=", "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA=="),
    ("authorization", "Authorization: Basic ", "dXNlcjpwYXNzd29yZDEyMw=="),
    ("bearer_token", "-H 'X: bearer ", "a1b2c3d4e5f6a7b8c9"),
    ("cookie", "Set-Cookie: ", "sid=a8f5f167f44f4964e6c998dee827110c; Path=/"),
    ("url_password", "postgres://admin:", "s3cr3t@db.example.org/app"),
];

#[test]
fn every_kind_is_found_and_named() {
    for (rule, secret) in secrets() {
        for text in [secret.clone(), format!("the key is {secret}, keep it"), format!("{{\"x\":'{secret}'}}")]
        {
            let clean = super::text(&text).unwrap_or_else(|| panic!("{rule}: nothing found in {text}"));
            assert!(clean.contains(&format_mark(rule)), "{rule}: {text} became {clean}");
            // The host of a URL that contains a secret is kept.
            let tail = &secret[secret.len() - 16..];
            assert!(!clean.contains(tail), "{rule}: {text} became {clean}");
        }
    }
}

#[test]
fn a_word_beside_it_gives_a_value_away() {
    for (rule, before, value) in BESIDE {
        let text = format!("x {before}{value}");
        let clean = super::text(&text).unwrap_or_else(|| panic!("{rule}: nothing found in {text}"));
        let secret = value.split('@').next().unwrap_or_default();
        assert!(
            clean.contains(&format_mark(rule)) && !clean.contains(secret),
            "{rule}: {text} became {clean}"
        );
        assert!(clean.starts_with(&format!("x {before}")), "{text} became {clean}");
    }
    let line = "curl -sS -u admin:hunter2 https://example.org";
    assert_eq!(super::text(line).unwrap(), "curl -sS -u admin:[redacted:basic_auth] https://example.org");
}

#[test]
fn a_key_block_that_was_cut_is_found_by_what_is_left() {
    let block = key_block("RSA PRIVATE");
    let tail = &block[200..];
    let head = &block[..200];
    for part in [tail, head] {
        let clean = super::text(&format!("some output:\n{part}")).unwrap();
        assert!(!clean.contains(&noise(64)) && clean.starts_with("some output:\n"), "{clean}");
    }
}

#[test]
fn ordinary_text_stays() {
    let corpus = include_str!("../ordinary.txt");
    let wrong: Vec<_> = corpus.lines().filter_map(super::text).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(super::text(corpus), None);
    let all = serde_json::to_string(&corpus.lines().collect::<Vec<_>>()).unwrap();
    assert_eq!(json(&all, "metadata"), None);
}

#[test]
fn names_of_members_speak_about_their_values() {
    let clean = |text: &str| json(text, "state").unwrap_or_else(|| panic!("nothing found in {text}"));
    assert_eq!(clean(r#"{"db":{"password":"hunter2"}}"#), r#"{"db":{"password":"[redacted:password]"}}"#);
    assert_eq!(clean(r#"{"tokens":["abc123def456"]}"#), r#"{"tokens":["[redacted:token]"]}"#);
    let list = r#"["mysql","--password","hunter2","db"]"#;
    assert_eq!(clean(list), r#"["mysql","--password","[redacted:password]","db"]"#);
    let list = r#"["curl","-u","me:hunter2","https://example.org"]"#;
    assert_eq!(clean(list), r#"["curl","-u","me:[redacted:basic_auth]","https://example.org"]"#);
    let variable = r#"[{"name":"DB_PASSWORD","value":"hunter2"}]"#;
    assert_eq!(clean(variable), r#"[{"name":"DB_PASSWORD","value":"[redacted:password]"}]"#);
    let header = r#"{"Authorization":"Bearer a1b2c3d4e5"}"#;
    assert_eq!(clean(header), r#"{"Authorization":"Bearer [redacted:authorization]"}"#);
    for stays in [
        r#"{"max_tokens":"4096","token_type":"bearer","password":"string","secret_name":"my-db-2"}"#,
        r#"{"password":null,"token":12345678901234,"secret":true}"#,
        r#"["docker","run","-u","1000:1000"]"#,
    ] {
        assert_eq!(json(stays, "state"), None, "{stays}");
    }
}

#[test]
fn all_that_is_not_replaced_keeps_its_bytes() {
    let (_, secret) = &secrets()[1];
    let text = format!("{{ \"a\" : \"caf\\u00e9 \\/ {secret} \\ud83d\\ude00\\n\" ,\t\"n\":1.0e0 }}");
    let clean = json(&text, "state").unwrap();
    assert_eq!(clean, text.replace(secret.as_str(), "[redacted:github_token]"));
}

#[test]
fn escapes_hide_nothing() {
    for (rule, secret) in secrets() {
        let escaped: String = secret.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        let first = format!(
            "\\u{:04X}{}",
            u32::from(secret.chars().next().unwrap()),
            &secret[1..].replace('\n', "\\n")
        );
        for hidden in [escaped, first.replace('/', "\\/")] {
            let text = format!("{{\"x\":[\"{hidden}\"]}}");
            let clean = json(&text, "state").unwrap_or_else(|| panic!("{rule}: nothing found in {text}"));
            assert!(clean.contains(&format_mark(rule)), "{rule}: {clean}");
            serde_json::from_str::<serde_json::Value>(&clean).unwrap();
        }
    }
}

#[test]
fn names_are_replaced_and_stay_apart() {
    let (_, one) = &secrets()[1];
    let two = one.replace("q7", "w8");
    let text = format!("{{\"{one}\":1,\"{two}\":2,\"[redacted:github_token]#2\":3}}");
    let clean = json(&text, "state").unwrap();
    let read: std::collections::BTreeMap<String, u8> = serde_json::from_str(&clean).unwrap();
    assert_eq!(read.len(), 3, "{clean}");
    assert!(!clean.contains(&one[4..20]) && !clean.contains(&two[4..20]), "{clean}");
    assert_eq!(json(&clean, "state"), None);
}

#[test]
fn places_are_found_and_counted() {
    let raw = |text: &str| RawJson::parse(text).unwrap();
    let members = [
        ("brief", raw(r#""[redacted:jwt] and [redacted:jwt]""#)),
        ("state", raw(r#"{"a~/b":["x","[redacted:token]"],"[redacted:token]":1}"#)),
        ("task_summary", raw(r#""[redacted:nobody]""#)),
    ];
    let found = summarize_redactions(members.iter().map(|(name, raw)| (*name, raw))).unwrap();
    assert_eq!(
        found.counts.into_iter().collect::<Vec<_>>(),
        [("jwt".to_owned(), 2), ("token".to_owned(), 2)]
    );
    assert_eq!(found.pointers, ["/brief", "/state/a~0~1b/1", "/state/[redacted:token]"]);
}

/// Repeats texts that could make a matcher read the same bytes many times.
#[test]
fn hostile_text_takes_linear_time() {
    let size = 1 << 18;
    for piece in [
        "sk-",
        "eyJ",
        "eyJa.eyJa.",
        "token=",
        "password=",
        "password='",
        "cookie:",
        "cookie: a=",
        "://",
        "a://b:",
        "a://b@",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "MMMMMMMMMMMMMMMMMMMMMMMM.",
        ":AA",
        "--user a:",
        "tokentoken",
        "<token>",
        "authorization: ",
        "bearer ",
        "[redacted:token] = ",
        "M",
        "a",
        "\\",
        "\"",
        "ü=token:",
        "mysql -p",
        "mysql 'a",
        "docker login \\\n",
        "htpasswd -b ",
        "a' b\" mysql -p' ",
        "login a password b ",
        "machine a login b password ",
        "password ",
        "otpauth://",
        "Private-Lines: 1\n",
        "+ASt",
        "_mmk",
        ".atlasv1.",
        "0-us1",
        "A",
        "123456789012345|",
        "--password=",
        ";Pwd=",
        "user=;password=aaaaaa;",
        "_key=",
        "_auth=QQQQ",
        "x-oauth-basic@a://",
    ] {
        let text: String = piece.chars().cycle().take(size / piece.len() * piece.chars().count()).collect();
        let begun = std::time::Instant::now();
        let _ = super::text(&text);
        let quoted = serde_json::to_string(&[&text]).unwrap();
        let _ = json(&quoted, "state");
        // The limit allows for a debug build on a busy machine. Quadratic time would take hours.
        assert!(begun.elapsed().as_secs() < 60, "{piece}: {:?}", begun.elapsed());
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let text = prop_oneof![
        "[ -~]{0,30}",
        "\\PC{0,12}",
        any::<prop::sample::Index>().prop_map(|i| BESIDE[i.index(BESIDE.len())].1.to_owned()),
        any::<prop::sample::Index>().prop_map(|i| BESIDE[i.index(BESIDE.len())].2.to_owned()),
        any::<prop::sample::Index>().prop_map(|i| i.get(&secrets()).1.clone()),
        ("[ -~]{0,8}", any::<prop::sample::Index>(), "[ -~]{0,8}")
            .prop_map(|(a, i, b)| format!("{a}{}{b}", i.get(&secrets()).1)),
    ];
    let leaf = prop_oneof![
        any::<i64>().prop_map(serde_json::Value::from),
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        text.clone().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::vec((text.clone(), inner), 0..4)
                .prop_map(|all| serde_json::Value::Object(all.into_iter().collect())),
        ]
    })
}

/// Whether both documents have the same kinds of values in the same places.
fn same_shape(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Object, String};
    match (a, b) {
        (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_shape(a, b)),
        (Object(a), Object(b)) => a.len() == b.len(),
        (String(_), String(_)) => true,
        (a, b) => a == b,
    }
}

proptest! {
    #[test]
    fn a_secret_in_any_place_is_gone(value in any_json(), which in any::<prop::sample::Index>(), pretty: bool) {
        let secret = which.get(&secrets()).1.clone();
        // Inside a sentence, as a member name, and as a nested value.
        let document = serde_json::json!({ "a": [value, format!("see {secret} there")], secret.clone(): [[secret]] });
        let text = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) }.unwrap();
        let clean = json(&text, "state").unwrap();
        let read: serde_json::Value = serde_json::from_str(&clean).unwrap();
        prop_assert!(same_shape(&document, &read), "{clean}");
        // The generated value may contain the same letters without being a secret.
        let mut read = read;
        read["a"][0] = serde_json::Value::Null;
        let core = serde_json::to_string(&secret[secret.len() - 20..]).unwrap();
        prop_assert!(!read.to_string().contains(core.trim_matches('"')), "{clean}");
    }

    #[test]
    fn once_is_enough(value in any_json()) {
        let text = serde_json::to_string(&value).unwrap();
        if let Some(clean) = json(&text, "state") {
            let read: serde_json::Value = serde_json::from_str(&clean).unwrap();
            prop_assert!(same_shape(&value, &read));
            prop_assert_eq!(json(&clean, "state"), None);
        }
    }

    #[test]
    fn once_is_enough_in_text(parts in prop::collection::vec(any_json(), 0..6), glue in "[ =:\\-\"',@/\n]{0,2}") {
        let text = parts.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), ToOwned::to_owned));
        let text = text.collect::<Vec<_>>().join(&glue);
        if let Some(clean) = super::text(&text) {
            prop_assert_eq!(super::text(&clean), None, "{}", clean);
        }
    }

    #[test]
    fn hashes_ids_and_numbers_stay(bytes in prop::collection::vec(any::<u8>(), 16..64), n: u64) {
        let hex = data_encoding::HEXLOWER.encode(&bytes);
        let text = format!("commit {hex} n={n} sha256:{hex} /objects/{}/{} cp_{n}_{}", &hex[..2], &hex[2..], &hex[..12]);
        prop_assert_eq!(super::text(&text), None);
    }
}

proptest! {
    #[test]
    fn the_gate_lets_every_secret_in(value in any_json()) {
        let text = serde_json::to_string(&value).unwrap();
        let mut walked = text.clone();
        // The escape in this member name makes the walker read every string.
        walked.insert_str(0, "{\"\\u0020\":");
        walked.push('}');
        let found = json(&walked, "state").is_some();
        prop_assert_eq!(json(&text, "state").is_some(), found, "{}", text);
    }
}
