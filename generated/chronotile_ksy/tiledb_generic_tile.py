# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy import tiledb_filter_pipeline
from chronotile_ksy import tiledb_datatype
from enum import IntEnum


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbGenericTile(KaitaiStruct):
    """The envelope of every delete, update, schema, enumeration and metadata file:
    a header that makes the tile readable without a schema, the filters, and the
    filtered bytes in chunks.
    
    Where it is one chunk with one GZIP part and no encryption, the specs that
    import this one inflate it themselves. Several chunks, or an encrypted tile,
    show their framing: no Kaitai process can join chunks, and none has the key.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/generic_tile.md
    """

    class EncryptionTypes(IntEnum):
        no_encryption = 0
        aes_256_gcm = 1
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbGenericTile, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.version = self._io.read_u4le()
        self.len_persisted = self._io.read_u8le()
        if not self.len_persisted >= 8:
            raise kaitaistruct.ValidationLessThanError(8, self.len_persisted, self._io, u"/seq/1")
        if not self.len_persisted <= self._io.size() - self._io.pos():
            raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_persisted, self._io, u"/seq/1")
        self.len_tile = self._io.read_u8le()
        self.datatype = KaitaiStream.resolve_enum(tiledb_datatype.TiledbDatatype.Codes, self._io.read_u1())
        self.len_cell = self._io.read_u8le()
        self.encryption_type = KaitaiStream.resolve_enum(TiledbGenericTile.EncryptionTypes, self._io.read_u1())
        if not isinstance(self.encryption_type, TiledbGenericTile.EncryptionTypes):
            raise kaitaistruct.ValidationNotInEnumError(self.encryption_type, self._io, u"/seq/5")
        self.len_filter_pipeline = self._io.read_u4le()
        if not self.len_filter_pipeline >= 8:
            raise kaitaistruct.ValidationLessThanError(8, self.len_filter_pipeline, self._io, u"/seq/6")
        if not self.len_filter_pipeline <= self._io.size() - self._io.pos():
            raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_filter_pipeline, self._io, u"/seq/6")
        self._raw_filter_pipeline = self._io.read_bytes(self.len_filter_pipeline)
        _io__raw_filter_pipeline = KaitaiStream(BytesIO(self._raw_filter_pipeline))
        self.filter_pipeline = tiledb_filter_pipeline.TiledbFilterPipeline(_io__raw_filter_pipeline)
        self._raw_tile = self._io.read_bytes(self.len_persisted)
        _io__raw_tile = KaitaiStream(BytesIO(self._raw_tile))
        self.tile = TiledbGenericTile.TileChunks(self.outer_filter, _io__raw_tile, self, self._root)


    def _fetch_instances(self):
        pass
        self.filter_pipeline._fetch_instances()
        self.tile._fetch_instances()

    class CompressedPart(KaitaiStruct):
        """The two lengths of one part.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md#compression-filters
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbGenericTile.CompressedPart, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.len_original = self._io.read_u4le()
            self.len_compressed = self._io.read_u4le()


        def _fetch_instances(self):
            pass


    class CompressedParts(KaitaiStruct):
        """How long each part is, before and after the compressor.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md#compression-filters
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbGenericTile.CompressedParts, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.num_metadata_parts = self._io.read_u4le()
            if not self.num_metadata_parts <= (self._io.size() - self._io.pos()) // 8:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 8, self.num_metadata_parts, self._io, u"/types/compressed_parts/seq/0")
            self.num_data_parts = self._io.read_u4le()
            if not self.num_data_parts <= (self._io.size() - self._io.pos()) // 8 - self.num_metadata_parts:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 8 - self.num_metadata_parts, self.num_data_parts, self._io, u"/types/compressed_parts/seq/1")
            self.metadata_parts = []
            for i in range(self.num_metadata_parts):
                self.metadata_parts.append(TiledbGenericTile.CompressedPart(self._io, self, self._root))

            self.data_parts = []
            for i in range(self.num_data_parts):
                self.data_parts.append(TiledbGenericTile.CompressedPart(self._io, self, self._root))

            self.trailing = self._io.read_bytes_full()
            if not self.trailing == b"":
                raise kaitaistruct.ValidationNotEqualError(b"", self.trailing, self._io, u"/types/compressed_parts/seq/4")


        def _fetch_instances(self):
            pass
            for i in range(len(self.metadata_parts)):
                pass
                self.metadata_parts[i]._fetch_instances()

            for i in range(len(self.data_parts)):
                pass
                self.data_parts[i]._fetch_instances()



    class EncryptedPart(KaitaiStruct):
        """One part that AES-256-GCM encrypted.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md#encryption-filters
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbGenericTile.EncryptedPart, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.len_plain = self._io.read_u4le()
            self.len_encrypted = self._io.read_u4le()
            self.iv = self._io.read_bytes(12)
            self.tag = self._io.read_bytes(16)


        def _fetch_instances(self):
            pass


    class EncryptedParts(KaitaiStruct):
        """What it takes to decrypt each part, but for the key. The metadata of the
        filter before is itself an encrypted part.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md#encryption-filters
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbGenericTile.EncryptedParts, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.num_metadata_parts = self._io.read_u4le()
            if not self.num_metadata_parts <= (self._io.size() - self._io.pos()) // 36:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 36, self.num_metadata_parts, self._io, u"/types/encrypted_parts/seq/0")
            self.num_data_parts = self._io.read_u4le()
            if not self.num_data_parts <= (self._io.size() - self._io.pos()) // 36 - self.num_metadata_parts:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 36 - self.num_metadata_parts, self.num_data_parts, self._io, u"/types/encrypted_parts/seq/1")
            self.metadata_parts = []
            for i in range(self.num_metadata_parts):
                self.metadata_parts.append(TiledbGenericTile.EncryptedPart(self._io, self, self._root))

            self.data_parts = []
            for i in range(self.num_data_parts):
                self.data_parts.append(TiledbGenericTile.EncryptedPart(self._io, self, self._root))

            self.trailing = self._io.read_bytes_full()
            if not self.trailing == b"":
                raise kaitaistruct.ValidationNotEqualError(b"", self.trailing, self._io, u"/types/encrypted_parts/seq/4")


        def _fetch_instances(self):
            pass
            for i in range(len(self.metadata_parts)):
                pass
                self.metadata_parts[i]._fetch_instances()

            for i in range(len(self.data_parts)):
                pass
                self.data_parts[i]._fetch_instances()



    class FilteredBytes(KaitaiStruct):
        """The parts one after the other, metadata parts first.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbGenericTile.FilteredBytes, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.raw = self._io.read_bytes_full()


        def _fetch_instances(self):
            pass


    class OtherMetadata(KaitaiStruct):
        """The metadata of a filter that no commit file carries, left as it is.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbGenericTile.OtherMetadata, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.raw = self._io.read_bytes_full()


        def _fetch_instances(self):
            pass


    class TileChunk(KaitaiStruct):
        """At most max_chunk_size original bytes, filtered on their own.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md
        """
        def __init__(self, outer_filter, _io, _parent=None, _root=None):
            super(TiledbGenericTile.TileChunk, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.outer_filter = outer_filter
            self._read()

        def _read(self):
            self.len_original = self._io.read_u4le()
            self.len_filtered = self._io.read_u4le()
            if not self.len_filtered <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_filtered, self._io, u"/types/tile_chunk/seq/1")
            self.len_metadata = self._io.read_u4le()
            if not self.len_metadata <= (self._io.size() - self._io.pos()) - self.len_filtered:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) - self.len_filtered, self.len_metadata, self._io, u"/types/tile_chunk/seq/2")
            _on = self.outer_filter
            if _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.aes_256_gcm:
                pass
                self._raw_metadata = self._io.read_bytes(self.len_metadata)
                _io__raw_metadata = KaitaiStream(BytesIO(self._raw_metadata))
                self.metadata = TiledbGenericTile.EncryptedParts(_io__raw_metadata, self, self._root)
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.bzip2:
                pass
                self._raw_metadata = self._io.read_bytes(self.len_metadata)
                _io__raw_metadata = KaitaiStream(BytesIO(self._raw_metadata))
                self.metadata = TiledbGenericTile.CompressedParts(_io__raw_metadata, self, self._root)
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.delta:
                pass
                self._raw_metadata = self._io.read_bytes(self.len_metadata)
                _io__raw_metadata = KaitaiStream(BytesIO(self._raw_metadata))
                self.metadata = TiledbGenericTile.CompressedParts(_io__raw_metadata, self, self._root)
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.dictionary:
                pass
                self._raw_metadata = self._io.read_bytes(self.len_metadata)
                _io__raw_metadata = KaitaiStream(BytesIO(self._raw_metadata))
                self.metadata = TiledbGenericTile.CompressedParts(_io__raw_metadata, self, self._root)
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.double_delta:
                pass
                self._raw_metadata = self._io.read_bytes(self.len_metadata)
                _io__raw_metadata = KaitaiStream(BytesIO(self._raw_metadata))
                self.metadata = TiledbGenericTile.CompressedParts(_io__raw_metadata, self, self._root)
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.gzip:
                pass
                self._raw_metadata = self._io.read_bytes(self.len_metadata)
                _io__raw_metadata = KaitaiStream(BytesIO(self._raw_metadata))
                self.metadata = TiledbGenericTile.CompressedParts(_io__raw_metadata, self, self._root)
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.lz4:
                pass
                self._raw_metadata = self._io.read_bytes(self.len_metadata)
                _io__raw_metadata = KaitaiStream(BytesIO(self._raw_metadata))
                self.metadata = TiledbGenericTile.CompressedParts(_io__raw_metadata, self, self._root)
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.rle:
                pass
                self._raw_metadata = self._io.read_bytes(self.len_metadata)
                _io__raw_metadata = KaitaiStream(BytesIO(self._raw_metadata))
                self.metadata = TiledbGenericTile.CompressedParts(_io__raw_metadata, self, self._root)
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.zstd:
                pass
                self._raw_metadata = self._io.read_bytes(self.len_metadata)
                _io__raw_metadata = KaitaiStream(BytesIO(self._raw_metadata))
                self.metadata = TiledbGenericTile.CompressedParts(_io__raw_metadata, self, self._root)
            else:
                pass
                self._raw_metadata = self._io.read_bytes(self.len_metadata)
                _io__raw_metadata = KaitaiStream(BytesIO(self._raw_metadata))
                self.metadata = TiledbGenericTile.OtherMetadata(_io__raw_metadata, self, self._root)
            self._raw_filtered = self._io.read_bytes(self.len_filtered)
            _io__raw_filtered = KaitaiStream(BytesIO(self._raw_filtered))
            self.filtered = TiledbGenericTile.FilteredBytes(_io__raw_filtered, self, self._root)


        def _fetch_instances(self):
            pass
            _on = self.outer_filter
            if _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.aes_256_gcm:
                pass
                self.metadata._fetch_instances()
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.bzip2:
                pass
                self.metadata._fetch_instances()
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.delta:
                pass
                self.metadata._fetch_instances()
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.dictionary:
                pass
                self.metadata._fetch_instances()
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.double_delta:
                pass
                self.metadata._fetch_instances()
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.gzip:
                pass
                self.metadata._fetch_instances()
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.lz4:
                pass
                self.metadata._fetch_instances()
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.rle:
                pass
                self.metadata._fetch_instances()
            elif _on == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.zstd:
                pass
                self.metadata._fetch_instances()
            else:
                pass
                self.metadata._fetch_instances()
            self.filtered._fetch_instances()

        @property
        def is_one_part(self):
            if hasattr(self, '_m_is_one_part'):
                return self._m_is_one_part

            self._m_is_one_part =  ((self.outer_filter == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.gzip) and (self.metadata.num_metadata_parts == 0) and (self.metadata.num_data_parts == 1)) 
            return getattr(self, '_m_is_one_part', None)


    class TileChunks(KaitaiStruct):
        """The chunks, in the order of the bytes that they hold.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md
        """
        def __init__(self, outer_filter, _io, _parent=None, _root=None):
            super(TiledbGenericTile.TileChunks, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.outer_filter = outer_filter
            self._read()

        def _read(self):
            self.num_chunks = self._io.read_u8le()
            if not self.num_chunks <= (self._io.size() - self._io.pos()) // 12:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 12, self.num_chunks, self._io, u"/types/tile_chunks/seq/0")
            self.chunks = []
            for i in range(self.num_chunks):
                self.chunks.append(TiledbGenericTile.TileChunk(self.outer_filter, self._io, self, self._root))

            self.trailing = self._io.read_bytes_full()
            if not self.trailing == b"":
                raise kaitaistruct.ValidationNotEqualError(b"", self.trailing, self._io, u"/types/tile_chunks/seq/2")


        def _fetch_instances(self):
            pass
            for i in range(len(self.chunks)):
                pass
                self.chunks[i]._fetch_instances()



    @property
    def is_one_zlib_stream(self):
        """Whether a Kaitai process can inflate it."""
        if hasattr(self, '_m_is_one_zlib_stream'):
            return self._m_is_one_zlib_stream

        self._m_is_one_zlib_stream =  ((self.num_filters == 1) and (self.outer_filter == tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.gzip) and (self.tile.num_chunks == 1) and (self.tile.chunks[0].is_one_part)) 
        return getattr(self, '_m_is_one_zlib_stream', None)

    @property
    def num_filters(self):
        if hasattr(self, '_m_num_filters'):
            return self._m_num_filters

        self._m_num_filters = self.filter_pipeline.num_filters
        return getattr(self, '_m_num_filters', None)

    @property
    def outer_filter(self):
        """The filter that ran last, whose framing is the outermost."""
        if hasattr(self, '_m_outer_filter'):
            return self._m_outer_filter

        self._m_outer_filter = (tiledb_filter_pipeline.TiledbFilterPipeline.FilterTypes.none if self.num_filters == 0 else self.filter_pipeline.filters[self.num_filters - 1].filter_type)
        return getattr(self, '_m_outer_filter', None)

    @property
    def why_closed(self):
        """Why the payload is not shown; empty where it is."""
        if hasattr(self, '_m_why_closed'):
            return self._m_why_closed

        self._m_why_closed = (u"" if self.is_one_zlib_stream else (u" (closed: it is encrypted, and a spec has no key)" if self.encryption_type != TiledbGenericTile.EncryptionTypes.no_encryption else (u" (closed: it has no chunk)" if self.tile.num_chunks == 0 else (u" (closed: no spec can join several chunks)" if self.tile.num_chunks > 1 else u" (closed: it is no single zlib stream)"))))
        return getattr(self, '_m_why_closed', None)


