//! A fake server behind TLS, with a certificate of a private authority.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::FakeServer;

/// Accepts TLS connections and passes them to a fake server. It ends when dropped.
pub struct TlsFront {
    port: u16,
    /// The certificate of the authority, as a trust store has it.
    pub authority: String,
    _runtime: tokio::runtime::Runtime,
}

impl TlsFront {
    pub fn start<W>(server: &FakeServer<W>) -> TlsFront {
        let (authority, config) = certificates();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (acceptor, behind) = (TlsAcceptor::from(config), server.address.clone());
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, behind) = (acceptor.clone(), behind.clone());
                tokio::spawn(async move {
                    let Ok(mut front) = acceptor.accept(stream).await else {
                        return;
                    };
                    let mut back = TcpStream::connect(behind).await.expect("the server");
                    let _ = tokio::io::copy_bidirectional(&mut front, &mut back).await;
                });
            }
        });
        TlsFront {
            port,
            authority,
            _runtime: runtime,
        }
    }

    /// Where it listens, with `https://` and without a path.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }
}

/// The certificate of the authority in PEM, and a server with a certificate for `localhost` from it.
fn certificates() -> (String, Arc<ServerConfig>) {
    let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(authority, key).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let server = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let server = server.signed_by(&key, &authority).expect("a certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![server.der().clone()], key)
        .expect("a certificate that fits its key");
    (authority.pem(), Arc::new(config))
}
