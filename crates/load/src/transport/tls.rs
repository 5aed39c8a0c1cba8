// SPDX-License-Identifier: Apache-2.0
//! TLS with the same meaning as in the servers' own clients. `Prefer` and `Require` encrypt and accept any certificate: test servers have
//! self-signed ones, and the user knows which server it is. `VerifyCa` and `VerifyFull` check the certificate against the user's file.

use crate::target::{Endpoint, Target, Tls};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, LazyLock};

static ANY: LazyLock<Result<Arc<ClientConfig>, String>> = LazyLock::new(|| configuration(None));

pub(super) fn client(target: &Target) -> Result<ClientConnection, String> {
    let host = match &target.endpoint {
        Endpoint::Tcp(host, _) => host.clone(),
        Endpoint::Socket(_) => "localhost".to_owned(),
    };
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let configuration = if target.tls.verifies() { configuration(Some(trusted(target)?))? } else { ANY.clone()? };
    ClientConnection::new(configuration, name).map_err(|error| error.to_string())
}

fn configuration(trusted: Option<Trusted>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { provider, trusted }))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// The certificates of the user's file.
fn trusted(target: &Target) -> Result<Trusted, String> {
    let path =
        target.tls_ca.as_deref().ok_or("to check a certificate, the authority's is needed (sslrootcert, ssl-ca)")?;
    let unfit = |error: &dyn std::fmt::Display| format!("{} holds no certificates in PEM: {error}", path.display());
    let certificates = read(path).map_err(|error| unfit(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone()).map_err(|error| unfit(&error))?;
    }
    if certificates.is_empty() {
        return Err(unfit(&"there is none in it"));
    }
    Ok(Trusted { roots, certificates, name_too: target.tls == Tls::VerifyFull })
}

/// Larger than all authorities of a system together.
const AUTHORITIES_BYTES_MOST: u64 = 16 << 20;

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(rustls::pki_types::pem::Error::Io)?;
    file.take(AUTHORITIES_BYTES_MOST).read_to_end(&mut text).map_err(rustls::pki_types::pem::Error::Io)?;
    CertificateDer::pem_slice_iter(&text).collect()
}

#[derive(Debug)]
struct Trusted {
    roots: RootCertStore,
    /// A server may use one of these itself.
    certificates: Vec<CertificateDer<'static>>,
    name_too: bool,
}

impl Trusted {
    fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        now: UnixTime,
        provider: &CryptoProvider,
    ) -> Result<(), Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        if !self.certificates.iter().any(|known| known.as_ref() == end_entity.as_ref()) {
            let algorithms = provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms)?;
        }
        if self.name_too { verify_server_name(&certificate, server_name) } else { Ok(()) }
    }
}

/// Checks the certificate as far as asked. Always checks that the server has the certificate's key.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    trusted: Option<Trusted>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(trusted) = &self.trusted {
            trusted.check(end_entity, intermediates, server_name, now, &self.provider)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
