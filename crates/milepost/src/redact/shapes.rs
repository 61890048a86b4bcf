//! Secrets that a prefix gives away: the shapes that the issuers of keys and tokens have published.
//! One line a shape. To add one, put its line where its first letter stands: the table is in order of first bytes.

use super::text::{Class, Text};
use super::worth;

/// What else has to be true of what follows the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Nothing: the prefix says enough.
    Prefix,
    /// No letter or digit stands before it.
    Edge,
    /// That, and it is not made of words.
    Mixed,
}

struct Shape {
    rule: &'static str,
    prefix: &'static [u8],
    class: Class,
    /// How long what follows is at least, and at most; 0 for any length.
    length: (usize, usize),
    need: Need,
}

const fn shape(
    rule: &'static str,
    prefix: &'static str,
    class: Class,
    length: (usize, usize),
    need: Need,
) -> Shape {
    Shape { rule, prefix: prefix.as_bytes(), class, length, need }
}

use Class::{Alnum, Base64, Dotted, Hex, Upper, Word};
use Need::{Edge, Mixed, Prefix};

static SHAPES: [Shape; 97] = [
    shape("google_refresh_token", "1//0", Word, (30, 0), Edge),
    shape("aws_access_key", "A3T", Upper, (17, 17), Edge),
    shape("aws_access_key", "ABIA", Upper, (16, 16), Edge),
    shape("aws_access_key", "ACCA", Upper, (16, 16), Edge),
    shape("age_secret_key", "AGE-SECRET-KEY-1", Alnum, (50, 0), Prefix),
    shape("google_api_key", "AIza", Word, (35, 0), Edge),
    shape("aws_access_key", "AKIA", Upper, (16, 16), Edge),
    shape("aws_access_key", "ASIA", Upper, (16, 16), Edge),
    shape("atlassian_token", "ATATT3", Dotted, (60, 0), Edge),
    shape("bitbucket_token", "ATBB", Alnum, (28, 40), Mixed),
    shape("circleci_token", "CCIPAT_", Word, (30, 0), Prefix),
    shape("square_token", "EAAA", Word, (56, 64), Mixed),
    shape("easypost_key", "EZAK", Alnum, (54, 54), Edge),
    shape("flutterwave_key", "FLWSECK", Word, (12, 0), Edge),
    shape("google_client_secret", "GOCSPX-", Word, (20, 0), Prefix),
    shape("gitlab_token", "GR1348941", Word, (20, 0), Edge),
    shape("heroku_key", "HRKU-", Word, (36, 0), Prefix),
    shape("alibaba_key", "LTAI", Alnum, (16, 26), Mixed),
    shape("newrelic_key", "NRAK-", Alnum, (27, 0), Prefix),
    shape("postman_key", "PMAK-", Word, (50, 0), Prefix),
    shape("sendgrid_key", "SG.", Dotted, (50, 0), Edge),
    shape("twilio_key", "SK", Hex, (32, 32), Edge),
    shape("aio_key", "aio_", Alnum, (28, 28), Edge),
    shape("huggingface_token", "api_org_", Alnum, (30, 0), Prefix),
    shape("buildkite_token", "bkua_", Alnum, (40, 0), Prefix),
    shape("databricks_token", "dapi", Hex, (32, 34), Edge),
    shape("docker_token", "dckr_pat_", Word, (20, 0), Prefix),
    shape("digitalocean_token", "doo_v1_", Hex, (64, 0), Prefix),
    shape("digitalocean_token", "dop_v1_", Hex, (64, 0), Prefix),
    shape("digitalocean_token", "dor_v1_", Hex, (64, 0), Prefix),
    shape("doppler_token", "dp.ct.", Alnum, (40, 0), Prefix),
    shape("doppler_token", "dp.pt.", Alnum, (40, 0), Prefix),
    shape("doppler_token", "dp.st.", Dotted, (40, 0), Prefix),
    shape("duffel_token", "duffel_live_", Word, (40, 0), Prefix),
    shape("figma_token", "figd_", Word, (38, 0), Prefix),
    shape("frameio_token", "fio-u-", Word, (40, 0), Prefix),
    shape("fly_token", "fm2_", Base64, (40, 0), Prefix),
    shape("fly_token", "fo1_", Word, (40, 0), Prefix),
    shape("github_token", "ghc_", Alnum, (36, 0), Prefix),
    shape("github_token", "gho_", Alnum, (36, 0), Prefix),
    shape("github_token", "ghp_", Alnum, (36, 0), Prefix),
    shape("github_token", "ghr_", Alnum, (36, 0), Prefix),
    shape("github_token", "ghs_", Alnum, (36, 0), Prefix),
    shape("github_token", "ghu_", Alnum, (36, 0), Prefix),
    shape("github_token", "github_pat_", Word, (22, 0), Prefix),
    shape("gitlab_token", "glagent-", Word, (20, 0), Prefix),
    shape("grafana_token", "glc_", Base64, (32, 0), Prefix),
    shape("gitlab_token", "glcbt-", Word, (20, 0), Prefix),
    shape("gitlab_token", "gldt-", Word, (20, 0), Prefix),
    shape("gitlab_token", "glft-", Word, (20, 0), Prefix),
    shape("gitlab_token", "glimt-", Word, (20, 0), Prefix),
    shape("gitlab_token", "gloas-", Word, (20, 0), Prefix),
    shape("gitlab_token", "glpat-", Dotted, (20, 0), Prefix),
    shape("gitlab_token", "glptt-", Word, (20, 0), Prefix),
    shape("gitlab_token", "glrt-", Dotted, (20, 0), Prefix),
    shape("grafana_token", "glsa_", Word, (32, 0), Prefix),
    shape("gitlab_token", "glsoat-", Word, (20, 0), Prefix),
    shape("groq_key", "gsk_", Alnum, (40, 0), Edge),
    shape("huggingface_token", "hf_", Alnum, (30, 0), Edge),
    shape("vault_token", "hvb.", Word, (24, 0), Prefix),
    shape("vault_token", "hvr.", Word, (24, 0), Prefix),
    shape("vault_token", "hvs.", Word, (24, 0), Prefix),
    shape("mailgun_key", "key-", Hex, (32, 32), Edge),
    shape("linear_key", "lin_api_", Alnum, (32, 0), Prefix),
    shape("netlify_token", "nfp_", Alnum, (36, 0), Prefix),
    shape("npm_token", "npm_", Alnum, (36, 0), Prefix),
    shape("notion_token", "ntn_", Alnum, (40, 0), Prefix),
    shape("onepassword_token", "ops_eyJ", Base64, (100, 0), Prefix),
    shape("perplexity_key", "pplx-", Alnum, (40, 0), Prefix),
    shape("planetscale_token", "pscale_", Dotted, (32, 0), Prefix),
    shape("pulumi_token", "pul-", Hex, (40, 40), Edge),
    shape("pypi_token", "pypi-", Word, (50, 0), Prefix),
    shape("replicate_token", "r8_", Alnum, (37, 40), Edge),
    shape("readme_key", "rdme_", Alnum, (70, 0), Prefix),
    shape("stripe_key", "rk_live_", Alnum, (16, 0), Prefix),
    shape("stripe_key", "rk_test_", Alnum, (16, 0), Prefix),
    shape("rubygems_key", "rubygems_", Hex, (48, 0), Prefix),
    shape("supabase_token", "sbp_", Hex, (40, 0), Prefix),
    shape("supabase_key", "sb_secret_", Word, (20, 0), Prefix),
    shape("notion_token", "secret_", Alnum, (43, 43), Mixed),
    shape("shopify_token", "shpat_", Hex, (32, 0), Prefix),
    shape("shopify_token", "shpca_", Hex, (32, 0), Prefix),
    shape("shopify_token", "shppa_", Hex, (32, 0), Prefix),
    shape("shopify_token", "shpss_", Hex, (32, 0), Prefix),
    shape("anthropic_key", "sk-ant-", Word, (20, 0), Prefix),
    shape("openrouter_key", "sk-or-v1-", Hex, (40, 0), Prefix),
    shape("openai_key", "sk-", Word, (20, 0), Mixed),
    shape("stripe_key", "sk_live_", Alnum, (16, 0), Prefix),
    shape("stripe_key", "sk_test_", Alnum, (16, 0), Prefix),
    shape("sentry_token", "sntryu_", Hex, (60, 0), Prefix),
    shape("sentry_token", "sntrys_", Base64, (60, 0), Prefix),
    shape("square_token", "sq0", Word, (26, 0), Mixed),
    shape("typeform_token", "tfp_", Dotted, (50, 0), Prefix),
    shape("tailscale_key", "tskey-", Word, (24, 0), Prefix),
    shape("stripe_key", "whsec_", Base64, (24, 0), Prefix),
    shape("slack_token", "xapp-", Word, (20, 0), Prefix),
    shape("slack_token", "xox", Word, (14, 0), Mixed),
];

/// For each first byte where its shapes begin and end in the table; made when the program is compiled.
static FIRST: [(u8, u8); 256] = {
    let mut table = [(0, 0); 256];
    let mut n = 0;
    while n < SHAPES.len() {
        let first = SHAPES[n].prefix[0] as usize;
        if table[first].1 == 0 {
            table[first].0 = n as u8;
        }
        // A shape that stands apart from its first letter would take all between them along; a test looks for that.
        table[first].1 = n as u8 + 1;
        n += 1;
    }
    table
};

/// The bytes that follow this one in a prefix, one bit each.
pub(super) const fn follows(byte: u8) -> u128 {
    let mut set = 0;
    let mut n = 0;
    while n < SHAPES.len() {
        if SHAPES[n].prefix[0] == byte {
            set |= 1 << SHAPES[n].prefix[1];
        }
        n += 1;
    }
    set
}

/// A secret that begins here: where it ends, and its rule.
pub(super) fn find(text: &Text<'_>, at: usize, first: u8) -> Option<(usize, &'static str)> {
    let (from, to) = FIRST[usize::from(first)];
    SHAPES[usize::from(from)..usize::from(to)].iter().find_map(|shape| {
        if !text.starts(at, shape.prefix) {
            return None;
        }
        let edge = !text.before(at).is_some_and(|byte| byte.is_ascii_alphanumeric());
        if shape.need != Prefix && !edge {
            return None;
        }
        let from = at + shape.prefix.len();
        let end = text.run(shape.class, from);
        let (least, most) = shape.length;
        let length = end - from;
        if length < least || most > 0 && length > most {
            return None;
        }
        // An exact length that goes on in letters was something else.
        let goes_on = text.at(end).is_some_and(|byte| byte.is_ascii_alphanumeric());
        if most > 0 && goes_on || shape.need == Mixed && !worth::is_mixed(&text.text[from..end]) {
            return None;
        }
        Some((end, shape.rule))
    })
}

/// The rules of this table.
pub(super) fn rules() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().map(|shape| shape.rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_with_one_first_byte_stand_together() {
        for (byte, (from, to)) in FIRST.iter().enumerate() {
            for shape in &SHAPES[usize::from(*from)..usize::from(*to)] {
                assert_eq!(usize::from(shape.prefix[0]), byte, "{}", shape.rule);
            }
        }
    }
}
