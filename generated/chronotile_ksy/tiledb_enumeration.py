# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy import tiledb_datatype


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbEnumeration(KaitaiStruct):
    """The payload of an enumeration file: labels, which attributes store by index.
    The name and the path stand before the datatype; the format's own page leaves
    them out.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/enumeration.md
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbEnumeration, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.version = self._io.read_u4le()
        if not self.version == 0:
            raise kaitaistruct.ValidationNotEqualError(0, self.version, self._io, u"/seq/0")
        self.len_name = self._io.read_u4le()
        if not self.len_name <= self._io.size() - self._io.pos():
            raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_name, self._io, u"/seq/1")
        self.name = (self._io.read_bytes(self.len_name)).decode(u"UTF-8")
        self.len_path_name = self._io.read_u4le()
        if not self.len_path_name <= self._io.size() - self._io.pos():
            raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_path_name, self._io, u"/seq/3")
        self.path_name = (self._io.read_bytes(self.len_path_name)).decode(u"UTF-8")
        self.datatype = tiledb_datatype.TiledbDatatype(self._io)
        self.num_cell_values = self._io.read_u4le()
        self.ordered = self._io.read_u1()
        if not self.ordered <= 1:
            raise kaitaistruct.ValidationGreaterThanError(1, self.ordered, self._io, u"/seq/7")
        self.len_data = self._io.read_u8le()
        if not self.len_data <= self._io.size() - self._io.pos():
            raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_data, self._io, u"/seq/8")
        self._raw_data = self._io.read_bytes(self.len_data)
        _io__raw_data = KaitaiStream(BytesIO(self._raw_data))
        self.data = TiledbEnumeration.LabelData(_io__raw_data, self, self._root)
        if self.is_var:
            pass
            self.len_ofs_labels = self._io.read_u8le()
            _ = self.len_ofs_labels
            if not  ((_ % 8 == 0) and (_ <= self._io.size() - self._io.pos())) :
                raise kaitaistruct.ValidationExprError(self.len_ofs_labels, self._io, u"/seq/10")

        if self.is_var:
            pass
            self.ofs_labels = []
            for i in range(self.len_ofs_labels // 8):
                self.ofs_labels.append(self._io.read_u8le())


        self.trailing = self._io.read_bytes_full()
        if not self.trailing == b"":
            raise kaitaistruct.ValidationNotEqualError(b"", self.trailing, self._io, u"/seq/12")


    def _fetch_instances(self):
        pass
        self.datatype._fetch_instances()
        self.data._fetch_instances()
        if self.is_var:
            pass

        if self.is_var:
            pass
            for i in range(len(self.ofs_labels)):
                pass


        _ = self.labels
        if hasattr(self, '_m_labels'):
            pass
            for i in range(len(self._m_labels)):
                pass
                self._m_labels[i]._fetch_instances()



    class EnumerationLabel(KaitaiStruct):
        """One label, for people who look at a tree.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/enumeration.md
        """
        def __init__(self, index, _io, _parent=None, _root=None):
            super(TiledbEnumeration.EnumerationLabel, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.index = index
            self._read()

        def _read(self):
            pass


        def _fetch_instances(self):
            pass
            _ = self.value
            if hasattr(self, '_m_value'):
                pass
                self._m_value._fetch_instances()


        @property
        def end(self):
            if hasattr(self, '_m_end'):
                return self._m_end

            self._m_end = (self.start + self._parent.len_label if (not (self._parent.is_var)) else (self._parent.len_data if self.index + 1 == self._parent.num_labels else self._parent.ofs_labels[self.index + 1]))
            return getattr(self, '_m_end', None)

        @property
        def start(self):
            if hasattr(self, '_m_start'):
                return self._m_start

            self._m_start = (self._parent.ofs_labels[self.index] if self._parent.is_var else self.index * self._parent.len_label)
            return getattr(self, '_m_start', None)

        @property
        def value(self):
            if hasattr(self, '_m_value'):
                return self._m_value

            io = self._parent.data._io
            _pos = io.pos()
            io.seek(self.start)
            self._raw__m_value = io.read_bytes((self.end - self.start if self.end > self.start else 0))
            _io__raw__m_value = KaitaiStream(BytesIO(self._raw__m_value))
            self._m_value = tiledb_datatype.TiledbDatatype.TypedValues(self._parent.datatype.code, _io__raw__m_value)
            io.seek(_pos)
            return getattr(self, '_m_value', None)


    class LabelData(KaitaiStruct):
        """The labels one after the other.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/enumeration.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbEnumeration.LabelData, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.raw = self._io.read_bytes_full()


        def _fetch_instances(self):
            pass


    @property
    def is_ordered(self):
        if hasattr(self, '_m_is_ordered'):
            return self._m_is_ordered

        self._m_is_ordered = self.ordered != 0
        return getattr(self, '_m_is_ordered', None)

    @property
    def is_var(self):
        if hasattr(self, '_m_is_var'):
            return self._m_is_var

        self._m_is_var = self.num_cell_values == 4294967295
        return getattr(self, '_m_is_var', None)

    @property
    def labels(self):
        if hasattr(self, '_m_labels'):
            return self._m_labels

        _pos = self._io.pos()
        self._io.seek(0)
        self._m_labels = []
        for i in range(self.num_labels):
            self._m_labels.append(TiledbEnumeration.EnumerationLabel(i, self._io, self, self._root))

        self._io.seek(_pos)
        return getattr(self, '_m_labels', None)

    @property
    def len_label(self):
        """Bytes of a label, where labels do not vary in length."""
        if hasattr(self, '_m_len_label'):
            return self._m_len_label

        self._m_len_label = (0 if self.is_var else self.num_cell_values * self.datatype.len_value)
        return getattr(self, '_m_len_label', None)

    @property
    def num_labels(self):
        if hasattr(self, '_m_num_labels'):
            return self._m_num_labels

        self._m_num_labels = (self.len_ofs_labels // 8 if self.is_var else (0 if self.len_label == 0 else self.len_data // self.len_label))
        return getattr(self, '_m_num_labels', None)


