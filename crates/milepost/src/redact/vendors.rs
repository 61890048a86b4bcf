//! Vendors whose keys have no distinctive shape. The name of the variable identifies them, as in
//! `ALGOLIA_ADMIN_KEY=…`.

/// The vendor's name in lower case, as used in variable names, and the name of its redaction rule.
const VENDORS: [(&str, &str); 30] = [
    ("algolia", "algolia_key"),
    ("amplitude", "amplitude_key"),
    ("assemblyai", "assemblyai_key"),
    ("azure_devops", "azure_devops_token"),
    ("beamer", "beamer_key"),
    ("codecov", "codecov_token"),
    ("cohere", "cohere_key"),
    ("coinbase", "coinbase_key"),
    ("confluent", "confluent_key"),
    ("datadog", "datadog_key"),
    ("deepgram", "deepgram_key"),
    ("discord", "discord_secret"),
    ("fastly", "fastly_token"),
    ("intercom", "intercom_token"),
    ("kraken", "kraken_key"),
    ("kucoin", "kucoin_key"),
    ("linkedin", "linkedin_secret"),
    ("linode", "linode_token"),
    ("mattermost", "mattermost_token"),
    ("messagebird", "messagebird_key"),
    ("mistral", "mistral_key"),
    ("okta", "okta_token"),
    ("opsgenie", "opsgenie_key"),
    ("pagerduty", "pagerduty_key"),
    ("rapidapi", "rapidapi_key"),
    ("snyk", "snyk_token"),
    ("sumologic", "sumologic_key"),
    ("twitch", "twitch_token"),
    ("vultr", "vultr_key"),
    ("zendesk", "zendesk_key"),
];

pub(super) fn rules() -> impl Iterator<Item = &'static str> {
    VENDORS.iter().map(|(_, rule)| *rule)
}

pub(super) fn find_vendor_rule(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    VENDORS.iter().find(|(vendor, _)| name.contains(vendor)).map(|(_, rule)| *rule)
}
