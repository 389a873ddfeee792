# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy import tiledb_operand


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbUpdateValues(KaitaiStruct):
    """What an update sets: a list of fields and their new values. It follows the
    condition in the same tile. Its sizes of names are 64 bits wide; those in the
    condition are 32.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/update_commit_file.md
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbUpdateValues, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.num_values = self._io.read_u8le()
        if not self.num_values <= (self._io.size() - self._io.pos()) // 16:
            raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 16, self.num_values, self._io, u"/seq/0")
        self.values = []
        for i in range(self.num_values):
            self.values.append(TiledbUpdateValues.UpdateValue(self._io, self, self._root))



    def _fetch_instances(self):
        pass
        for i in range(len(self.values)):
            pass
            self.values[i]._fetch_instances()


    class UpdateValue(KaitaiStruct):
        """One field and its new value.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/update_commit_file.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbUpdateValues.UpdateValue, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.len_field_name = self._io.read_u8le()
            if not self.len_field_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_field_name, self._io, u"/types/update_value/seq/0")
            self.field_name = (self._io.read_bytes(self.len_field_name)).decode(u"UTF-8")
            self.len_value = self._io.read_u8le()
            if not self.len_value <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_value, self._io, u"/types/update_value/seq/2")
            self._raw_value = self._io.read_bytes(self.len_value)
            _io__raw_value = KaitaiStream(BytesIO(self._raw_value))
            self.value = tiledb_operand.TiledbOperand(_io__raw_value)


        def _fetch_instances(self):
            pass
            self.value._fetch_instances()



