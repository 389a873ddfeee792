# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy import tiledb_datatype


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbArrayMetadata(KaitaiStruct):
    """The payload of a metadata file; of one key, the last entry counts.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/metadata.md
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbArrayMetadata, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.entries = []
        i = 0
        while not self._io.is_eof():
            self.entries.append(TiledbArrayMetadata.MetadataEntry(self._io, self, self._root))
            i += 1



    def _fetch_instances(self):
        pass
        for i in range(len(self.entries)):
            pass
            self.entries[i]._fetch_instances()


    class MetadataEntry(KaitaiStruct):
        """A key that was set or removed.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/metadata.md#metadata-file
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbArrayMetadata.MetadataEntry, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.len_key = self._io.read_u4le()
            if not self.len_key <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_key, self._io, u"/types/metadata_entry/seq/0")
            self.key = (self._io.read_bytes(self.len_key)).decode(u"UTF-8")
            self.deletion = self._io.read_u1()
            if not self.deletion <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.deletion, self._io, u"/types/metadata_entry/seq/2")
            if (not (self.is_deletion)):
                pass
                self.insertion = TiledbArrayMetadata.MetadataValue(self._io, self, self._root)



        def _fetch_instances(self):
            pass
            if (not (self.is_deletion)):
                pass
                self.insertion._fetch_instances()


        @property
        def effect(self):
            if hasattr(self, '_m_effect'):
                return self._m_effect

            self._m_effect = (u" is removed" if self.is_deletion else u" = ")
            return getattr(self, '_m_effect', None)

        @property
        def is_deletion(self):
            if hasattr(self, '_m_is_deletion'):
                return self._m_is_deletion

            self._m_is_deletion = self.deletion != 0
            return getattr(self, '_m_is_deletion', None)


    class MetadataValue(KaitaiStruct):
        """What a key was set to.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/metadata.md#metadata-file
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbArrayMetadata.MetadataValue, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.datatype = tiledb_datatype.TiledbDatatype(self._io)
            self.num_values = self._io.read_u4le()
            if not self.num_values <= (self._io.size() - self._io.pos()) // self.datatype.len_value:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // self.datatype.len_value, self.num_values, self._io, u"/types/metadata_value/seq/1")
            self._raw_value = self._io.read_bytes(self.num_values * self.datatype.len_value)
            _io__raw_value = KaitaiStream(BytesIO(self._raw_value))
            self.value = tiledb_datatype.TiledbDatatype.TypedValues(self.datatype.code, _io__raw_value)


        def _fetch_instances(self):
            pass
            self.datatype._fetch_instances()
            self.value._fetch_instances()



