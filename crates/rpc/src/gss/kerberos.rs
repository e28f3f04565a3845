//! Kerberos through the GSS-API library of MIT or Heimdal, which is loaded on first use. RFC 2743, in C: RFC 2744; the
//! mechanism: RFC 4121.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

use super::mechanism_context::{GssInitStep, GssMechanismContext, GssMechanismError};

/// Library names of MIT and of Heimdal.
const LIBRARIES: [&str; 2] = ["libgssapi_krb5.so.2", "libgssapi.so.3"];
/// GSS_C_NT_HOSTBASED_SERVICE: 1.2.840.113554.1.2.1.4. RFC 2743 section 4.1.
const HOSTBASED_SERVICE: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04";
/// The Kerberos mechanism: 1.2.840.113554.1.2.2. RFC 4121 section 1.
const KERBEROS: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02";
/// GSS_C_MUTUAL_FLAG and GSS_C_INTEG_FLAG. RPCSEC_GSS has its own window for replay detection (RFC 2203 section 5.2.2).
/// RFC 2744 appendix A.
const FLAGS: u32 = 2 | 32;
/// GSS_S_CONTINUE_NEEDED, and the mask of error bits. RFC 2744 section 3.9.1.
const CONTINUE_NEEDED: u32 = 1;
const ERRORS: u32 = 0xffff_0000;
/// GSS_C_GSS_CODE and GSS_C_MECH_CODE. RFC 2744 appendix A.
const CODES: [c_int; 2] = [1, 2];

/// gss_buffer_desc. RFC 2744 section 3.2.
#[repr(C)]
struct GssBufferDesc {
    length: usize,
    value: *mut c_void,
}

/// gss_OID_desc. RFC 2744 section 3.4.
#[repr(C)]
struct GssOidDesc {
    length: u32,
    elements: *mut c_void,
}

/// The opaque types gss_name_t, gss_cred_id_t and gss_ctx_id_t. RFC 2744 sections 3.5, 3.6 and 3.10.
type LibgssapiRawPointer = *mut c_void;

type GssImportNameFn =
    unsafe extern "C" fn(*mut u32, *mut GssBufferDesc, *mut GssOidDesc, *mut LibgssapiRawPointer) -> u32;
type GssInitSecContextFn = unsafe extern "C" fn(
    *mut u32,
    LibgssapiRawPointer,
    *mut LibgssapiRawPointer,
    LibgssapiRawPointer,
    *mut GssOidDesc,
    u32,
    u32,
    LibgssapiRawPointer,
    *mut GssBufferDesc,
    *mut *mut GssOidDesc,
    *mut GssBufferDesc,
    *mut u32,
    *mut u32,
) -> u32;
type GssGetMicFn =
    unsafe extern "C" fn(*mut u32, LibgssapiRawPointer, u32, *mut GssBufferDesc, *mut GssBufferDesc) -> u32;
type GssVerifyMicFn =
    unsafe extern "C" fn(*mut u32, LibgssapiRawPointer, *mut GssBufferDesc, *mut GssBufferDesc, *mut u32) -> u32;
type GssDisplayStatusFn =
    unsafe extern "C" fn(*mut u32, u32, c_int, *mut GssOidDesc, *mut u32, *mut GssBufferDesc) -> u32;
type GssReleaseBufferFn = unsafe extern "C" fn(*mut u32, *mut GssBufferDesc) -> u32;
type GssReleaseNameFn = unsafe extern "C" fn(*mut u32, *mut LibgssapiRawPointer) -> u32;
type GssDeleteSecContextFn = unsafe extern "C" fn(*mut u32, *mut LibgssapiRawPointer, *mut GssBufferDesc) -> u32;

/// The functions of the library. RFC 2744 section 5.
struct GssApiFunctions {
    import_name: GssImportNameFn,
    init_sec_context: GssInitSecContextFn,
    get_mic: GssGetMicFn,
    verify_mic: GssVerifyMicFn,
    display_status: GssDisplayStatusFn,
    release_buffer: GssReleaseBufferFn,
    release_name: GssReleaseNameFn,
    delete_sec_context: GssDeleteSecContextFn,
    /// Keeps the library loaded while its functions may be called.
    _library: Library,
}

impl GssApiFunctions {
    fn load() -> Option<Self> {
        LIBRARIES.iter().find_map(|name| {
            // SAFETY: loading a GSS-API library has no preconditions, and these functions have had these types in C
            // since RFC 2744.
            unsafe {
                let library = Library::new(name).ok()?;
                Some(Self {
                    import_name: *library.get(b"gss_import_name\0").ok()?,
                    init_sec_context: *library.get(b"gss_init_sec_context\0").ok()?,
                    get_mic: *library.get(b"gss_get_mic\0").ok()?,
                    verify_mic: *library.get(b"gss_verify_mic\0").ok()?,
                    display_status: *library.get(b"gss_display_status\0").ok()?,
                    release_buffer: *library.get(b"gss_release_buffer\0").ok()?,
                    release_name: *library.get(b"gss_release_name\0").ok()?,
                    delete_sec_context: *library.get(b"gss_delete_sec_context\0").ok()?,
                    _library: library,
                })
            }
        })
    }

    fn get() -> Result<&'static Self, GssMechanismError> {
        static FUNCTIONS: OnceLock<Option<GssApiFunctions>> = OnceLock::new();
        FUNCTIONS.get_or_init(Self::load).as_ref().ok_or_else(|| {
            GssMechanismError(
                "libgssapi_krb5.so.2 cannot be loaded, which Kerberos needs; install the package \
                 libgssapi-krb5-2"
                    .into(),
            )
        })
    }

    /// Copies a buffer that the library filled, and releases it.
    fn take(&self, mut buffer: GssBufferDesc) -> Vec<u8> {
        let bytes = match buffer.value.is_null() {
            true => Vec::new(),
            // SAFETY: the library reports this number of bytes, and nothing changes them until they are released below.
            false => unsafe { std::slice::from_raw_parts(buffer.value.cast::<u8>(), buffer.length) }.to_vec(),
        };
        let mut minor = 0;
        // SAFETY: the library filled the buffer, and it is not used after this.
        unsafe { (self.release_buffer)(&raw mut minor, &raw mut buffer) };
        bytes
    }

    /// Returns an error with the library's messages for the GSS-API status and the Kerberos status.
    fn error(&self, operation: &str, major: u32, minor: u32) -> GssMechanismError {
        let mut messages = Vec::new();
        for (kind, code) in CODES.into_iter().zip([major, minor]) {
            let (mut minor, mut message_context, mut text, mut mechanism) = (0, 0, empty(), oid(KERBEROS));
            // SAFETY: all pointers refer to values on this stack; the buffer in `text` is released below.
            let status = unsafe {
                (self.display_status)(
                    &raw mut minor,
                    code,
                    kind,
                    &raw mut mechanism,
                    &raw mut message_context,
                    &raw mut text,
                )
            };
            let text = self.take(text);
            if status == 0 && code != 0 && !text.is_empty() {
                messages.push(String::from_utf8_lossy(&text).into_owned());
            }
        }
        GssMechanismError(format!("{operation}: {}", messages.join(": ")))
    }
}

fn empty() -> GssBufferDesc {
    GssBufferDesc { length: 0, value: ptr::null_mut() }
}

/// Returns a buffer that the library only reads.
fn borrowed_buffer(bytes: &[u8]) -> GssBufferDesc {
    GssBufferDesc { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
}

fn oid(bytes: &'static [u8]) -> GssOidDesc {
    GssOidDesc { length: bytes.len() as u32, elements: bytes.as_ptr().cast_mut().cast() }
}

/// The client side of a Kerberos context.
pub struct KerberosClientContext {
    functions: &'static GssApiFunctions,
    host: String,
    name: LibgssapiRawPointer,
    context: LibgssapiRawPointer,
}

impl fmt::Debug for KerberosClientContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kerberos").field("host", &self.host).finish_non_exhaustive()
    }
}

impl KerberosClientContext {
    /// Prepares a context with the service `nfs` of a host, with the credentials of the current user: a ticket of
    /// `kinit`, or a keytab that KRB5_CLIENT_KTNAME names.
    ///
    /// # Errors
    /// Returns an error if there is no library, or the name cannot be imported.
    pub fn new(host: &str) -> Result<Self, GssMechanismError> {
        let functions = GssApiFunctions::get()?;
        let service = format!("nfs@{host}");
        let (mut minor, mut name) = (0, ptr::null_mut());
        let (mut text, mut kind) = (borrowed_buffer(service.as_bytes()), oid(HOSTBASED_SERVICE));
        // SAFETY: all pointers refer to values on this stack; the library copies what it needs.
        let major = unsafe { (functions.import_name)(&raw mut minor, &raw mut text, &raw mut kind, &raw mut name) };
        match major & ERRORS {
            0 => Ok(Self { functions, host: host.to_owned(), name, context: ptr::null_mut() }),
            _ => Err(functions.error(&service, major, minor)),
        }
    }
}

impl GssMechanismContext for KerberosClientContext {
    fn step(&mut self, token: &[u8]) -> Result<GssInitStep, GssMechanismError> {
        let (mut minor, mut input, mut output) = (0, borrowed_buffer(token), empty());
        let mut mechanism = oid(KERBEROS);
        let input: *mut GssBufferDesc = if token.is_empty() { ptr::null_mut() } else { &raw mut input };
        // SAFETY: name and context belong to the library, from calls of this value; all other pointers refer to values
        // on this stack, or are null as RFC 2744 section 5.19 permits.
        let major = unsafe {
            (self.functions.init_sec_context)(
                &raw mut minor,
                ptr::null_mut(),
                &raw mut self.context,
                self.name,
                &raw mut mechanism,
                FLAGS,
                0,
                ptr::null_mut(),
                input,
                ptr::null_mut(),
                &raw mut output,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        let token = self.functions.take(output);
        match major & ERRORS {
            0 => Ok(GssInitStep { token, is_done: major & CONTINUE_NEEDED == 0 }),
            _ => Err(self.functions.error(&format!("nfs@{}", self.host), major, minor)),
        }
    }

    fn sign(&mut self, message: &[u8], checksum: &mut Vec<u8>) -> Result<(), GssMechanismError> {
        if self.context.is_null() {
            return Err(GssMechanismError("cannot sign: no context is established".into()));
        }
        let (mut minor, mut message, mut mic) = (0, borrowed_buffer(message), empty());
        // SAFETY: the context belongs to the library; all other pointers refer to values on this stack.
        let major =
            unsafe { (self.functions.get_mic)(&raw mut minor, self.context, 0, &raw mut message, &raw mut mic) };
        checksum.extend_from_slice(&self.functions.take(mic));
        match major & ERRORS {
            0 => Ok(()),
            _ => Err(self.functions.error("cannot sign", major, minor)),
        }
    }

    fn verify(&mut self, message: &[u8], checksum: &[u8]) -> bool {
        if self.context.is_null() {
            return false;
        }
        let (mut minor, mut message, mut checksum) = (0, borrowed_buffer(message), borrowed_buffer(checksum));
        // SAFETY: as in `sign`; the library accepts any bytes as checksum.
        let major = unsafe {
            (self.functions.verify_mic)(
                &raw mut minor,
                self.context,
                &raw mut message,
                &raw mut checksum,
                ptr::null_mut(),
            )
        };
        major & ERRORS == 0
    }
}

impl Drop for KerberosClientContext {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: both belong to the library, or are null, and are not used after this.
        unsafe {
            (self.functions.release_name)(&raw mut minor, &raw mut self.name);
            if !self.context.is_null() {
                (self.functions.delete_sec_context)(&raw mut minor, &raw mut self.context, ptr::null_mut());
            }
        }
    }
}
