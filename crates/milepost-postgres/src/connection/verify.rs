//! Verifies the server's certificate as libpq does: not at all, its issuer, or its issuer and the host name.
//! Always verifies that the server has the certificate's key.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use x509_cert::der::Decode;

/// What a certificate must have.
#[derive(Debug)]
pub(super) enum Trust {
    /// Any certificate is accepted.
    Any,
    /// The certificate must come from one of the trusted issuers, or be one of the trusted certificates itself.
    Issuer {
        issuers: Arc<WebPkiServerVerifier>,
        /// The trusted certificates. Self-signed server certificates are usually marked as issuers, which
        /// the verifier of issuers does not accept as certificates of a server.
        certificates: Vec<CertificateDer<'static>>,
        is_name_checked: bool,
    },
}

#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) trust: Trust,
    pub(super) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Trust::Issuer { issuers, certificates, is_name_checked } = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        if certificates.iter().any(|trusted| trusted.as_ref() == certificate.as_ref()) {
            check_validity(certificate, now)?;
            if *is_name_checked {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        match issuers.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is verified last, so the issuer is trusted.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !is_name_checked => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn check_validity(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let invalid = |error| Err(Error::InvalidCertificate(error));
    let Ok(parsed) = x509_cert::Certificate::from_der(certificate) else {
        return invalid(CertificateError::BadEncoding);
    };
    let validity = &parsed.tbs_certificate.validity;
    if now.as_secs() < validity.not_before.to_unix_duration().as_secs() {
        return invalid(CertificateError::NotValidYet);
    }
    if now.as_secs() > validity.not_after.to_unix_duration().as_secs() {
        return invalid(CertificateError::Expired);
    }
    Ok(())
}
