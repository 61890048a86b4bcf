//! Builds the TLS configuration of a connection from its settings: root certificates, the client's
//! certificate, versions, what is verified. Reads the certificate files.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::ConnectError;
use super::file;
use super::settings::{RootCertificates, SslMode, SslNegotiation, TlsSettings, TlsVersion};
use super::verify::{Trust, Verifier};

/// The protocol's name, which servers require when TLS begins directly.
const ALPN: &[u8] = b"postgresql";

pub(super) fn connector(settings: &TlsSettings) -> Result<MakeRustlsConnect, ConnectError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trust = trust(settings, &provider)?;
    let versions: Vec<&'static SupportedProtocolVersion> =
        [(TlsVersion::V12, &TLS12), (TlsVersion::V13, &TLS13)]
            .into_iter()
            .filter(|(version, _)| {
                settings.min_version as u8 <= *version as u8 && *version as u8 <= settings.max_version as u8
            })
            .map(|(_, version)| version)
            .collect();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|e| ConnectError::TlsSettings { reason: e.to_string() })?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { trust, provider }));
    let mut config = match client_certificate(settings)? {
        Some((file, certificates, key)) => builder
            .with_client_auth_cert(certificates, key)
            .map_err(|e| ConnectError::TlsFile { file, reason: e.to_string() })?,
        None => builder.with_no_client_auth(),
    };
    config.enable_sni = settings.sends_server_name;
    if settings.negotiation == SslNegotiation::Direct {
        config.alpn_protocols = vec![ALPN.to_vec()];
    }
    Ok(MakeRustlsConnect::new(config))
}

fn trust(settings: &TlsSettings, provider: &Arc<CryptoProvider>) -> Result<Trust, ConnectError> {
    let is_needed = matches!(settings.mode, SslMode::VerifyCa | SslMode::VerifyFull);
    let certificates = match &settings.roots {
        RootCertificates::System => {
            let found = rustls_native_certs::load_native_certs();
            if found.certs.is_empty() {
                let reason = found.errors.first().map(ToString::to_string);
                let reason = reason.unwrap_or_else(|| "the system has no root certificates".to_owned());
                return Err(ConnectError::TlsSettings { reason });
            }
            found.certs
        }
        RootCertificates::File(file) => certificates(file)?,
        // As in libpq: an existing default file makes every mode verify the issuer.
        RootCertificates::Default(Some(file)) if file.exists() => certificates(file)?,
        RootCertificates::Default(_) if !is_needed => return Ok(Trust::Any),
        RootCertificates::Default(Some(file)) => {
            let reason = "the file with root certificates does not exist".to_owned();
            return Err(ConnectError::TlsFile { file: file.clone(), reason });
        }
        RootCertificates::Default(None) => {
            let reason = "no root certificate is given".to_owned();
            return Err(ConnectError::TlsSettings { reason });
        }
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    let issuers = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
    let issuers = issuers.map_err(|e| ConnectError::TlsSettings { reason: e.to_string() })?;
    Ok(Trust::Issuer { issuers, certificates, is_name_checked: settings.mode == SslMode::VerifyFull })
}

/// The certificates in a PEM file.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let failed = |reason: String| ConnectError::TlsFile { file: file.to_owned(), reason };
    let pem = file::read(file).map_err(|e| failed(e.to_string()))?;
    let found = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|e| failed(e.to_string()))?;
    if found.is_empty() { Err(failed("the file contains no certificate".to_owned())) } else { Ok(found) }
}

type ClientCertificate = (std::path::PathBuf, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn client_certificate(settings: &TlsSettings) -> Result<Option<ClientCertificate>, ConnectError> {
    let Some((certificate, key_file, is_named)) = &settings.client else { return Ok(None) };
    if !is_named && !certificate.exists() {
        return Ok(None);
    }
    let chain = certificates(certificate)?;
    let failed = |reason: &str| ConnectError::TlsFile { file: key_file.clone(), reason: reason.to_owned() };
    let pem = file::read(key_file).map_err(|e| failed(&e.to_string()))?;
    if is_exposed(key_file).map_err(|e| failed(&e.to_string()))? {
        return Err(failed("other users have access to the private key"));
    }
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
        failed("the file contains no private key that can be read; encrypted keys are not supported")
    })?;
    Ok(Some((key_file.clone(), chain, key)))
}

/// As in libpq: only the owner may have access, but the group may read a key that belongs to root.
#[cfg(unix)]
fn is_exposed(file: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(file)?;
    Ok(metadata.mode() & if metadata.uid() == 0 { 0o037 } else { 0o077 } != 0)
}

#[cfg(not(unix))]
fn is_exposed(_: &Path) -> std::io::Result<bool> {
    Ok(false)
}
